"""One identity for all nodes of a log, and an epoch for every copy of its database."""

import subprocess

from mainstem.testing.postgres import find_programs


def identify(client):
    about = client.get("/v1/log/head").json()
    return about["log"], [(epoch["after"], epoch["name"]) for epoch in about["epochs"]]


def create(client, path):
    client.put(f"/v1/stream/{path}", headers={"content-type": "text/plain"}, content=b"x").raise_for_status()


def test_nodes_that_start_together_agree_on_one_id_and_keep_it(start_nodes, browse):
    nodes = start_nodes(2)
    one, two = (identify(browse(node)) for node in nodes)
    assert one == two
    assert one[1] == [(0, "0")]
    for node in nodes:
        node.kill()
    third, *_ = start_nodes(1)
    assert identify(browse(third)) == one


def test_what_one_node_prunes_the_other_reports_for_each_selection(start_nodes, browse):
    one, two = (browse(node) for node in start_nodes(2))
    for path in ("a/x", "b/x"):
        create(one, path)
        assert two.get("/v1/log/head", params={"stream": f"{path[0]}/*"}).json()["pruned"] == 0
    last = one.get("/v1/log/head").json()["head"]
    one.post("/v1/stream/b/x", headers={"content-type": "text/plain"}, content=b"y").raise_for_status()
    offset = one.head("/v1/stream/b/x").headers["stream-next-offset"]
    one.post("/v1/prune", json={"streams": {"b/x": offset}}).raise_for_status()
    for client in (one, two):
        found = [client.get("/v1/log/head", params={"stream": glob}).json()["pruned"] for glob in ("a/*", "b/*", "b/x")]
        assert found[0] == 0
        assert found[1] == found[2] >= last


def test_a_restored_dump_and_a_copied_database_begin_epochs(postgres, postgres_url, start_nodes, browse, tmp_path):
    node, *_ = start_nodes(1)
    client = browse(node)
    create(client, "a")
    log, _ = identify(client)
    head = client.get("/v1/log/head").json()["head"]
    node.terminate()
    name = postgres_url.rpartition("/")[2].partition("?")[0]
    dump = tmp_path / "dump"
    programs = find_programs()
    subprocess.run([programs / "pg_dump", "--format=custom", f"--file={dump}", postgres_url], check=True)
    with postgres.database() as restored, postgres.database(template=name) as copied:
        subprocess.run([programs / "pg_restore", f"--dbname={postgres.url(restored)}", dump], check=True)
        epochs = []
        for database in (restored, copied):
            (other,) = start_nodes(1, url=postgres.url(database))
            create(browse(other), "b")
            found = identify(browse(other))
            assert (found[0], found[1][0], found[1][1][0]) == (log, (0, "0"), head)
            epochs.append(found[1][1][1])
            other.kill()
            other.start()
            assert identify(browse(other)) == found  # a restart is no restore
            other.terminate()
        assert len({*epochs, "0"}) == 3
