"""Cursors that are authenticated: by HMAC-SHA-256 with an organisation's own key."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.load import Database
from tests.oracle import Article, Chunk
from tests.strategies import Organisation, numbered
from tests.tenancy.conftest import QUESTION

SIGNED = 18


@pytest.fixture
def db(database: str) -> Iterator[Database]:
    with psycopg.connect(database, autocommit=True) as connection:
        made = Database(database, connection)
        made.prepare()
        yield made


def organisation(db: Database) -> int:
    chunk = Chunk(0, "lamp stone", vector=(1, 0))
    return db.load(Organisation(numbered([Article(0, (chunk,)) for _ in range(7)], 1, 1, seed=1)))


def signed(payload: str, key: bytes) -> str:
    """The same in Python."""
    tag = hmac.new(key, payload.encode(), hashlib.sha256).digest()[:SIGNED]
    return base64.urlsafe_b64encode(tag + payload.encode()).decode().rstrip("=")


def payload_of(cursor: str, tag: int = SIGNED) -> str:
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[tag:].decode()


def set_key(db: Database, org_id: int, **arguments: Any) -> int:
    named = "".join(f", {name} => %({name})s" for name in arguments)
    return int(
        db.connection.execute(
            f"SELECT kbsearch.set_kb_cursor_key_v1(%(org)s{named})".encode(), {"org": org_id, **arguments}
        ).fetchall()[0][0]
    )


def refused(db: Database, org_id: int, cursor: str) -> bool:
    try:
        db.page(org_id, QUESTION, p_cursor=cursor, p_limit=2)
    except psycopg.Error as error:
        return error.sqlstate == "KBCUR"
    return False


def walk(db: Database, org_id: int) -> list[int]:
    articles: list[int] = []
    cursor = None
    while True:
        page = db.page(org_id, QUESTION, p_limit=2, p_cursor=cursor)
        articles += [item["article_id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return articles


@pytest.mark.parametrize("length", [32, 33, 63, 64])
def test_a_signature_is_an_hmac(db: Database, length: int) -> None:
    """Of any key, against an implementation of its own."""
    org_id = organisation(db)
    key = bytes((7 * n + length) % 256 for n in range(length))
    set_key(db, org_id, p_key=key)
    cursor = db.page(org_id, QUESTION, p_limit=2)["next_cursor"]
    payload = payload_of(cursor)
    assert payload.split(" ")[1] == str(org_id)
    assert cursor == signed(payload, key)
    assert not refused(db, org_id, signed(payload, key))
    for row in db.search(org_id, QUESTION):
        assert row.cursor == signed(payload_of(row.cursor), key)


def test_pages_by_signed_cursors_are_the_ranking(db: Database) -> None:
    org_id = organisation(db)
    before = walk(db, org_id)
    set_key(db, org_id)
    assert walk(db, org_id) == before == [row.row.article_id for row in db.search(org_id, QUESTION)]
    explained = db.value(
        "SELECT max(e.cursor) FROM kbsearch.explain_kb_search_v1(%s, 'lamp stone', '[1,0]', 1, p_profile => 'weighted@1') AS e",
        [org_id],
    )
    assert explained == db.search(org_id, QUESTION, p_limit=1)[0].cursor


def test_any_other_byte_is_refused(db: Database) -> None:
    """Of a search's cursor and of a stored ranking's: edited, cut, of another key, not signed."""
    org_id, other = organisation(db), organisation(db)
    plain = db.page(org_id, QUESTION, p_limit=2)["next_cursor"]
    own, foreign = bytes(range(32)), bytes(range(100, 132))
    set_key(db, org_id, p_key=own)
    set_key(db, other, p_key=foreign)
    snapshot = db.value("SELECT s.snapshot FROM kbsearch.open_kb_search_v1(%s, 'lamp') AS s", [org_id])

    def stored_refused(cursor: str) -> bool:
        try:
            db.value("SELECT kbsearch.fetch_kb_page_v1(%s, %s, 2, p_cursor => %s)", [org_id, snapshot, cursor])
        except psycopg.Error as error:
            return error.sqlstate == "KBCUR"
        return False

    searched = db.page(org_id, QUESTION, p_limit=2)["next_cursor"]
    stored = db.value("SELECT kbsearch.fetch_kb_page_v1(%s, %s, 2)", [org_id, snapshot])["next_cursor"]
    for cursor, is_refused in ((searched, lambda text: refused(db, org_id, text)), (stored, stored_refused)):
        assert not is_refused(cursor)
        payload = payload_of(cursor)
        digest = hashlib.sha256(payload.encode()).digest()
        forged = [
            signed(payload, foreign),
            signed(payload, b""),
            signed(payload, bytes(32)),
            base64.urlsafe_b64encode(digest[:9] + payload.encode()).decode().rstrip("="),
            base64.urlsafe_b64encode(digest[:SIGNED] + payload.encode()).decode().rstrip("="),
            base64.urlsafe_b64encode(payload.encode()).decode().rstrip("="),
            *(cursor[:length] for length in range(len(cursor))),
            *(cursor[:n] + ("A" if sign != "A" else "B") + cursor[n + 1 :] for n, sign in enumerate(cursor)),
        ]
        assert all(is_refused(text) for text in forged)
    assert refused(db, org_id, plain)
    # signed by the organisation's own key, and still another's
    parts = payload_of(searched).split(" ")
    assert refused(db, other, signed(" ".join([parts[0], str(org_id), *parts[2:]]), foreign))
    assert refused(db, other, searched)


def test_a_key_is_changed_while_readers_page(db: Database) -> None:
    """The one before still counts, older ones do not; a leaked key can be dropped at once; without a row nothing is signed."""
    org_id = organisation(db)
    plain = db.page(org_id, QUESTION, p_limit=2)["next_cursor"]
    ids = [set_key(db, org_id)]
    first = db.page(org_id, QUESTION, p_limit=2)["next_cursor"]
    assert refused(db, org_id, plain)
    ids.append(set_key(db, org_id))
    second = db.page(org_id, QUESTION, p_limit=2)["next_cursor"]
    assert (refused(db, org_id, first), refused(db, org_id, second)) == (False, False)
    ids.append(set_key(db, org_id))
    assert (refused(db, org_id, first), refused(db, org_id, second)) == (True, False)
    ids.append(set_key(db, org_id, p_keep=0))
    assert refused(db, org_id, second)
    assert ids == sorted(set(ids))
    assert db.value("SELECT count(*) FROM kbsearch.kb_cursor_keys WHERE org_id = %s", [org_id]) == 1
    last = db.page(org_id, QUESTION, p_limit=2)["next_cursor"]
    db.connection.execute("DELETE FROM kbsearch.kb_cursor_keys WHERE org_id = %s", [org_id])
    assert (refused(db, org_id, plain), refused(db, org_id, last)) == (False, True)


def test_keys_are_random_and_of_a_length(db: Database) -> None:
    org_id = organisation(db)
    for _ in range(5):
        set_key(db, org_id, p_keep=9)
    pads = [
        bytes(row[0]) for row in db.connection.execute("SELECT k.pads FROM kbsearch.kb_cursor_keys AS k").fetchall()
    ]
    keys = {bytes(byte ^ 0x36 for byte in pad[:64]) for pad in pads}
    assert len(keys) == 5
    assert all(key[32:] == bytes(32) and len(set(key[:32])) > 20 for key in keys)
    assert all(bytes(byte ^ 0x5C for byte in pad[64:]) == bytes(byte ^ 0x36 for byte in pad[:64]) for pad in pads)
    for arguments in ({"p_key": bytes(31)}, {"p_key": bytes(65)}, {"p_keep": -1}, {"p_keep": 10}, {"p_keep": None}):
        with pytest.raises(psycopg.DatabaseError) as caught:
            set_key(db, org_id, **arguments)
        assert caught.value.sqlstate == "KBSEC"
