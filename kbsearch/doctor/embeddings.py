"""What vectors are of: older texts, the same text twice, names of a machine; and what the cache is worth."""

from __future__ import annotations

from kbsearch.doctor.base import Examination, Outcome, Report, check, number
from kbsearch.ingest.machine import Machine

EXAMPLES = 5
SAMPLE = 20_000
"""Inputs of the cache whose digests are computed again, without --deep."""
UNUSED_SHARE, UNUSED_VECTORS = 0.5, 10_000
"""Share of the cache's vectors that no chunk has any more, and their number, from which on a word is said."""

_WANTED = "(%(org_name)s::pg_catalog.text IS NULL OR o.name = %(org_name)s::pg_catalog.text)"


@check("embeddings.stale", "every vector of what its chunk says now")
def stale(ex: Examination, report: Report) -> Outcome:
    """No chunk's title, heading or content was changed since its vector was computed."""
    bad = False
    for name, space, model, active, count, ids in ex.rows(
        f"""SELECT o.name, s.id, s.name, s.id IS NOT DISTINCT FROM o.active_space_id, count(*),
    (array_agg(DISTINCT c.article_id ORDER BY c.article_id))[:%(examples)s]
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_article_embeddings AS e ON e.org_id = o.id AND e.searchable
INNER JOIN kbsearch.kb_article_chunks AS c ON c.org_id = e.org_id AND c.article_id = e.article_id AND c.id = e.chunk_id
INNER JOIN kbsearch.kb_embedding_spaces AS s ON s.id = e.space_id
WHERE e.chunk_digest <> kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content) AND {_WANTED}
GROUP BY o.id, s.id
ORDER BY o.id, s.id""",
        org_name=ex.org_name,
        examples=EXAMPLES,
    ):
        bad = True
        found = (
            f"{number(count, 'vector')} of an older text in space {space} ({model}): article {', '.join(map(str, ids))}"
        )
        details = {"space_id": space, "stale": count, "article_ids": ids}
        if active:
            yield report.problem(
                f"{found}, which searches find by what they said before",
                "Embed them anew: kbsearch ingest --embed-missing with its embedder, or upsert_kb_article_v1 with their embeddings.",
                organization=name,
                details=details,
            )
        else:
            yield report.warning(
                f"{found}; the space cannot be activated",
                "Complete it: kbsearch reembed with its embedder; or drop it: kbsearch space drop.",
                organization=name,
                details=details,
            )
    if not bad:
        yield report.ok("all of them")


@check("embeddings.inputs", "every text in the cache has the digest that it is filed under")
def inputs(ex: Examination, report: Report) -> Outcome:
    """Nobody changed a text beside its digest, and the vectors have their space's dimensions."""
    bad, total = False, 0
    for organization in ex.each_organization("embeddings.inputs"):
        looked, wrong = ex.row(
            """SELECT count(*), count(*) FILTER (WHERE i.input_sha256 <> decode(kbsearch.hash_kb_text_v1(i.input), 'hex'))
FROM (
    SELECT k.input_sha256, k.input
    FROM kbsearch.kb_embedding_inputs AS k
    WHERE k.org_id = %(org_id)s
    ORDER BY k.input_sha256
    LIMIT %(sample)s
) AS i""",
            org_id=organization.id,
            sample=None if ex.deep else SAMPLE,
        )
        total += looked
        misfits = ex.value(
            """SELECT count(*)
FROM kbsearch.kb_embedding_cache AS k
INNER JOIN kbsearch.kb_embedding_spaces AS s ON s.id = k.space_id
WHERE k.org_id = %(org_id)s AND kbsearch.count_kb_dimensions_v1(k.embedding) <> s.dimensions""",
            org_id=organization.id,
        )
        if wrong or misfits:
            bad = True
            yield report.problem(
                f"{number(wrong, 'text')} of {looked:,} under another digest, {number(misfits, 'vector')} of other dimensions than their space",
                f"DELETE FROM kbsearch.kb_embedding_inputs AS i WHERE i.org_id = {organization.id}"
                " AND i.input_sha256 <> decode(kbsearch.hash_kb_text_v1(i.input), 'hex');\n"
                f"DELETE FROM kbsearch.kb_embedding_cache AS k USING kbsearch.kb_embedding_spaces AS s WHERE k.org_id = {organization.id}"
                " AND s.id = k.space_id AND kbsearch.count_kb_dimensions_v1(k.embedding) <> s.dimensions;\n"
                "-- Vectors that were made from the cache may be those of other texts: see who wrote to these tables.",
                organization=organization.name,
                details={"looked_at": looked, "wrong": wrong, "misfits": misfits},
            )
    if not bad:
        yield report.ok(f"{number(total, 'text')} looked at{'' if ex.deep else ' (--deep: all)'}")


@check("embeddings.machine_names", "no path, user's or host's name of a machine in what models were given")
def machine_names(ex: Examination, report: Report) -> Outcome:
    """The same files ingested elsewhere have the same vectors: no embedded text names the machine that it was made on."""
    machine, bad = Machine.here(), False
    for organization in ex.each_organization("embeddings.machine_names"):
        suspected = [
            (digest, suspicion)
            for digest, text in ex.rows(
                """SELECT encode(i.input_sha256, 'hex'), i.input
FROM kbsearch.kb_embedding_inputs AS i
WHERE i.org_id = %(org_id)s AND i.input LIKE ANY (%(signs)s) AND EXISTS (
    SELECT FROM kbsearch.kb_embedding_cache AS k
    INNER JOIN kbsearch.kb_embedding_spaces AS s ON s.id = k.space_id
    WHERE k.org_id = i.org_id AND k.input_sha256 = i.input_sha256 AND k.role = 'passage' AND s.recipe ->> 'machine_names' IS DISTINCT FROM 'allowed'
)
ORDER BY i.input_sha256""",
                org_id=organization.id,
                signs=[f"%{_escaped(sign)}%" for sign in machine.signs],
            )
            if (suspicion := machine.suspect_lines(text)) is not None
        ]
        if suspected:
            bad = True
            digest, suspicion = suspected[0]
            yield report.warning(
                f"{number(len(suspected), 'text')} with a name of a machine in it, like {suspicion.text!r} ({suspicion.kind})",
                f"SELECT i.input FROM kbsearch.kb_embedding_inputs AS i WHERE i.org_id = {organization.id} AND i.input_sha256 = '\\x{digest}';\n"
                "Take the names out of the documents and ingest them again (kbsearch embed --show says what is found), or allow them:"
                " kbsearch ingest --allow-machine-names.",
                organization=organization.name,
                details={"texts": len(suspected), "sha256": [one for one, _ in suspected[:EXAMPLES]]},
            )
    if not bad:
        yield report.ok("none")


def _escaped(sign: str) -> str:
    return sign.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


@check("embeddings.duplicates", "no two published articles with the same text in a chunk")
def duplicates(ex: Examination, report: Report) -> Outcome:
    """No model was given the same text, title and heading included, for chunks of several published articles."""
    bad = False
    for name, texts, articles, ids in ex.rows(
        f"""SELECT o.name, d.texts, d.articles, d.ids
FROM kbsearch.organizations AS o
CROSS JOIN LATERAL (
    SELECT count(DISTINCT t.input_sha256) AS texts, count(DISTINCT a.id) AS articles, (array_agg(DISTINCT a.id ORDER BY a.id))[:%(examples)s] AS ids
    FROM (
        SELECT e.input_sha256, array_agg(DISTINCT e.article_id) AS article_ids
        FROM kbsearch.kb_article_embeddings AS e
        WHERE e.org_id = o.id AND e.space_id = o.active_space_id AND e.searchable AND e.input_sha256 IS NOT NULL
        GROUP BY e.input_sha256
        HAVING count(DISTINCT e.article_id) > 1
    ) AS t
    CROSS JOIN LATERAL unnest(t.article_ids) AS a (id)
) AS d
WHERE d.texts > 0 AND {_WANTED}
ORDER BY o.id""",
        org_name=ex.org_name,
        examples=EXAMPLES,
    ):
        bad = True
        yield report.warning(
            f"{number(texts, 'text')} in {number(articles, 'article')}, which take several places of a ranking: article {', '.join(map(str, ids))}",
            "Keep one of them, or tell them apart by their titles.",
            organization=name,
            details={"texts": texts, "articles": articles, "article_ids": ids},
        )
    if not bad:
        yield report.ok("none")


@check("embeddings.spaces", "every embedding space in use")
def spaces(ex: Examination, report: Report) -> Outcome:
    """No embedding space is left that no organisation searches, has vectors in or caches for."""
    unused = ex.rows(
        """SELECT s.id, s.name
FROM kbsearch.kb_embedding_spaces AS s
LEFT JOIN (
    SELECT o.active_space_id AS id FROM kbsearch.organizations AS o
    UNION
    SELECT e.space_id FROM kbsearch.kb_article_embeddings AS e
    UNION
    SELECT k.space_id FROM kbsearch.kb_embedding_cache AS k
    UNION
    SELECT n.space_id FROM kbsearch.kb_embedding_counts AS n
) AS u ON u.id = s.id
WHERE u.id IS NULL
ORDER BY s.id"""
    )
    if not unused:
        yield report.ok("all of them")
        return
    named = ", ".join(f"{name} ({space})" for space, name in unused[:EXAMPLES])
    more = f" and {len(unused) - EXAMPLES} more" if len(unused) > EXAMPLES else ""
    yield report.warning(
        f"{number(len(unused), 'space')} that nobody uses: {named}{more}",
        f"DELETE FROM kbsearch.kb_embedding_spaces WHERE id IN ({', '.join(str(space) for space, _ in unused)});",
        details={"space_ids": [space for space, _ in unused]},
    )


@check("embeddings.cache", f"less than {UNUSED_SHARE:.0%} of the cached vectors without a chunk")
def cache(ex: Examination, report: Report) -> Outcome:
    """How often the cache had what was asked for, and whether it is worth its space."""
    bad = False
    hits, misses = ex.row(
        f"""SELECT coalesce(sum(n.hits), 0)::bigint, coalesce(sum(n.misses), 0)::bigint
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_embedding_counts AS n ON n.org_id = o.id
WHERE {_WANTED}""",
        org_name=ex.org_name,
    )
    cached = 0
    for org_id, name, vectors, unused in ex.rows(
        f"""SELECT o.id, o.name, count(*), count(*) FILTER (WHERE k.role = 'passage' AND NOT EXISTS (
        SELECT FROM kbsearch.kb_article_embeddings AS e
        WHERE e.org_id = k.org_id AND e.space_id = k.space_id AND e.input_sha256 = k.input_sha256))
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_embedding_cache AS k ON k.org_id = o.id
WHERE {_WANTED}
GROUP BY o.id
ORDER BY o.id""",
        org_name=ex.org_name,
    ):
        cached += vectors
        if unused >= UNUSED_VECTORS and unused > UNUSED_SHARE * vectors:
            bad = True
            yield report.warning(
                f"{unused:,} of {number(vectors, 'cached vector')} are of texts that no chunk has any more",
                f"DELETE FROM kbsearch.kb_embedding_cache AS k WHERE k.org_id = {org_id} AND k.role = 'passage' AND NOT EXISTS"
                " (SELECT FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = k.org_id AND e.space_id = k.space_id"
                " AND e.input_sha256 = k.input_sha256);\n"
                f"DELETE FROM kbsearch.kb_embedding_inputs AS i WHERE i.org_id = {org_id} AND NOT EXISTS"
                " (SELECT FROM kbsearch.kb_embedding_cache AS k WHERE k.org_id = i.org_id AND k.input_sha256 = i.input_sha256);",
                organization=name,
                details={"vectors": vectors, "unused": unused},
            )
    if not bad:
        asked = hits + misses
        rate = f"{hits / asked:.0%} of {asked:,} texts were there" if asked else "never asked"
        yield report.ok(
            f"{rate}; {number(cached, 'vector')}", details={"hits": hits, "misses": misses, "vectors": cached}
        )
