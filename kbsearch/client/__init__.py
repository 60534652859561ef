"""The Python clients: KBSearch and, for asyncio, AsyncKBSearch.

What a call does is written once (`calls.py`), in plans (`plans.py`): generators that yield what is to be done and are sent what came of it.
The two clients (`clients.py`) only run them, over whatever they were given to connect with: psycopg and its pools (`sources.py`) or
SQLAlchemy (`alchemy.py`, `alchemy_async.py`).
"""

from kbsearch.client.calls import Consistency
from kbsearch.client.clients import AsyncKBSearch, KBSearch
from kbsearch.client.plans import QueryEmbedder
from kbsearch.client.sources import AsyncPool, Pool

__all__ = ["AsyncKBSearch", "AsyncPool", "Consistency", "KBSearch", "Pool", "QueryEmbedder"]
