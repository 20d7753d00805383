export default {
  test: { include: ["conformance.test.js"], testTimeout: 30000, hookTimeout: 30000 },
}
