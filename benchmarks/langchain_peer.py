"""LangChain's hybrid search (langchain-postgres), run by a Python of its own: it needs another version of the package pgvector than kbsearch does.

    python langchain_peer.py URL table        makes the table
    python langchain_peer.py URL indexes      builds its indexes
    python langchain_peer.py URL ask          answers questions, a line of JSON each, with lines of ids

Imports nothing of kbsearch's.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

TABLE, DIMENSIONS = "langchain_documents", 384
CANDIDATES = 20
"""Of each leg: by default there are four, which fill no page of ten."""


def main() -> None:
    """Do what the arguments say."""
    url, what = sys.argv[1:]
    package: Any = importlib.import_module("langchain_postgres")
    hybrid: Any = importlib.import_module("langchain_postgres.v2.hybrid_search_config")
    indexes: Any = importlib.import_module("langchain_postgres.v2.indexes")
    embeddings: Any = importlib.import_module("langchain_core.embeddings")

    class Given(embeddings.Embeddings):  # type: ignore[misc, name-defined, unused-ignore]
        """Vectors that are here already."""

        vector: list[float]

        def embed_query(self, text: str) -> list[float]:
            del text
            return self.vector

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.vector for _ in texts]

    def config(question: str = "") -> Any:
        return hybrid.HybridSearchConfig(
            tsv_column="content_tsv",
            tsv_lang="pg_catalog.english",
            # where it is empty, the first question's words are kept and searched for in all later ones
            fts_query=question,
            fusion_function=hybrid.reciprocal_rank_fusion,
            primary_top_k=CANDIDATES,
            secondary_top_k=CANDIDATES,
        )

    engine = package.PGEngine.from_connection_string(url=url)
    if what == "table":
        engine.init_vectorstore_table(
            table_name=TABLE,
            vector_size=DIMENSIONS,
            id_column=package.Column("langchain_id", "BIGINT"),
            metadata_columns=[package.Column("org_id", "BIGINT")],
            hybrid_search_config=config(),
            overwrite_existing=True,
        )
        return
    given = Given()
    store = package.PGVectorStore.create_sync(
        engine=engine,
        table_name=TABLE,
        embedding_service=given,
        metadata_columns=["org_id"],
        hybrid_search_config=config(),
    )
    if what == "indexes":
        store.apply_hybrid_search_index()
        store.apply_vector_index(indexes.HNSWIndex(name="langchain_documents_hnsw"))
        return
    for line in sys.stdin:
        asked = json.loads(line)
        given.vector = asked["embedding"]
        found = store.similarity_search(
            asked["text"],
            k=asked["limit"],
            filter=None if asked["org"] is None else {"org_id": asked["org"]},
            hybrid_search_config=config(asked["text"]),
        )
        print(json.dumps([one.id for one in found]), flush=True)


if __name__ == "__main__":
    main()
