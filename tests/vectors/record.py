"""Fill in the outcomes of the vectors from the Python client: `python -m tests.vectors.record`.

Write the inputs of a case by hand, run this, and read every outcome in the diff against the protocol: it becomes the
truth for every other client.
"""

from tests.vectors.files import dump, files, load
from tests.vectors.runs import run_case

if __name__ == "__main__":
    for path in files():
        path.write_text(dump([run_case(path, case) for case in load(path)]), encoding="utf-8")
