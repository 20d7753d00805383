// The same as of the other page: a service worker is only responsible for the pages of its own folder.

importScripts("../todo/service-worker.js");
