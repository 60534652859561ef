"""The three failures of fused searches, on a help centre's text and the local model's vectors, and what an organisation's policy makes of them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import psycopg
import pytest

from kbsearch import KBSearch, Page, arbitration
from kbsearch.embed import LocalEmbedder
from kbsearch.ingest import Document, Source, ingest

HELP = {
    "returns": (
        "Returns and refunds",
        (
            "Changed your mind? Within thirty days of delivery we refund the full purchase price of any unused item. Print the label, "
            "tape it on the parcel and hand it to the courier. The amount reaches your card about a week after our warehouse has checked the goods."
        ),
    ),
    "chair": (
        "A garden chair with a higher back",
        "If you want something softer for your back, lay a cushion over its back. The longer cushion is for the bench and worth the money.",
    ),
    "hose": (
        "The hose reel",
        "Want something longer than ten metres? The longer hose winds itself back on its reel, and does not cost much more money.",
    ),
    "transfer": (
        "Paying by bank transfer",
        (
            "You can send the money for an order from your bank. Write the order number into the reference, so that the money does not go back. "
            "Transfers from abroad take longer, and some banks want a fee for something like a currency exchange."
        ),
    ),
    "sign-in": (
        "Signing in again after too many attempts",
        "After five wrong passwords the account is locked for an hour. Choose a new password by the link that we send to your address.",
    ),
    "invoice": (
        "A copy of an invoice",
        "Invoices of the last ten years are in your account, under Documents. Each can be downloaded as a PDF and carries your tax number.",
    ),
    "delivery": (
        "How a delivery is followed",
        "The courier's number is in the message that says your parcel has left. With it you see where the van is and when it will ring at your door.",
    ),
    "damaged": (
        "The box arrived broken",
        (
            "Take photographs of the carton and of what is inside before you unpack any further, and send both to us on the day of arrival. "
            "We ship a replacement free of charge."
        ),
    ),
    "descale": (
        "Descaling the coffee machine",
        "Hard water leaves lime in the boiler. Run the descaling programme every two months with citric acid, then rinse twice with cold water.",
    ),
    "noise": (
        "The pump hums but moves no water",
        (
            "Air in the suction line keeps the pump from priming. Fill the housing by hand, tighten the clamp and switch it on again; "
            "a worn impeller hums as well."
        ),
    ),
    "warranty": (
        "Two years of warranty",
        "Motors and electronics are guaranteed for two years, seals and brushes for six months. Keep the receipt: the date on it counts.",
    ),
    "battery": (
        "Storing a battery over the winter",
        "Charge it to about half, keep it dry and above freezing point, and look at it every three months. A deeply discharged cell cannot be saved.",
    ),
    "xj-900": (
        "XJ-900",
        (
            "Sediment cartridge for pool pumps up to 1.1 kW, pleated paper, 5 microns. Housing with bayonet lock. "
            "Made until 2019; fits pumps of the Marina series."
        ),
    ),
    "xj-901": (
        "XJ-901 filter",
        "Filter cartridge for the XJ series: a pleated filter of 10 microns that takes the place of older filters in every XJ filter housing.",
    ),
    "xj-90": (
        "XJ-90 filter",
        "Small filter for the XJ series, with a filter mesh of steel. Filter housing and filter ring are part of the set.",
    ),
    "xj-9000": (
        "XJ-9000 filter",
        "The large filter of the XJ series for whole houses. The filter is washed back by hand; filter change once a year.",
    ),
    "xj-800": (
        "XJ-800 filter",
        "Carbon filter of the XJ series against chlorine. Change the filter every six months, together with the filter seal.",
    ),
    "xk-900": (
        "XK-900 filter",
        "Filter for the XK series, 5 microns. The XK filter has another thread than the XJ filter and does not fit its housing.",
    ),
    "filters": (
        "Which filter fits which housing",
        "Find the number on the filter or on its housing. XJ filters have a bayonet, XK filters a thread, and no filter fits both.",
    ),
    "filter-change": (
        "Changing a filter",
        "Close the valve, let the pressure out, open the housing and put the new filter in. Grease the filter seal, write the date on the filter.",
    ),
    # The same text under several names: articles that only their ids tell apart, more of them than a policy compares.
    **{
        f"branch-{town}": (
            "Opening hours of our branch",
            "We are there for you from nine to six on weekdays, and until noon at the weekend.",
        )
        for town in ("york", "leeds", "hull", "derby", "crewe", "bath", "truro")
    },
    **{
        f"net-{size}": (
            "The close-meshed pond net",
            "An offer of the shop to Saturday gardeners: its close mesh keeps leaves and herons out of the pond.",
        )
        for size in ("s", "m", "l", "xl", "xxl", "wide")
    },
}
OTHER_WORDS = "How do I get my money back for something I no longer want?"
PART_NUMBER = "XJ-900 filter"
TIED = "When does the shop close on Saturday?"
POLICY = """SELECT kbsearch.create_kb_arbitration_policy_v1(
    p_org_id => %s, p_name => 'help', p_similarity_threshold => 0.4, p_moderate_rule => 'apply_rule', p_severe_rule => 'apply_rule',
    p_class_rules => '{"identifier": {"advisory_leg": "vector"}}'
)"""
PROFILE = "SELECT kbsearch.create_kb_ranking_profile_v1(%s, 'help', 'arbitrate', p_policy => 'help@1')"


@dataclass(frozen=True)
class Centre:
    """A help centre whose profile help@1 arbitrates."""

    dsn: str
    org_id: int
    embedder: LocalEmbedder

    def ask(self, question: str, profile: str) -> Page:
        with KBSearch(self.dsn, embedder=self.embedder) as client:
            return client.search(self.org_id, question, profile=profile, limit=50)


@pytest.fixture(scope="module")
def centre(shared_database: str) -> Centre:
    embedder = LocalEmbedder()
    documents = [Document(reference, title, text) for reference, (title, text) in HELP.items()]
    with psycopg.connect(shared_database, autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO kbsearch.organizations (name) VALUES ('help centre') RETURNING id"
        ).fetchone()
        assert row is not None
        report = ingest(connection, row[0], [Source("help", documents)], embedder=embedder)
        assert report.embedded_chunks == len(HELP)
        connection.execute(POLICY, row)
        connection.execute(PROFILE, row)
    return Centre(shared_database, row[0], embedder)


def place(page: Page, reference: str) -> int | None:
    """The place of an article; None where it is not found."""
    return next((item.place for item in page.items if item.external_ref == reference), None)


def arbitrated(centre: Centre, question: str) -> Page:
    """The page of help@1, whose record is right."""
    page = centre.ask(question, "help@1")
    assert page.manifest is not None
    assert arbitration.verify(page.manifest, question) == ()
    return page


def test_a_right_article_in_other_words(centre: Centre) -> None:
    """It has no word of the question, and three articles on other topics have nearly all of them."""
    assert place(centre.ask(OTHER_WORDS, "keyword@1"), "returns") is None
    assert place(centre.ask(OTHER_WORDS, "vector@1"), "returns") == 1
    for fused in ("rrf@1", "weighted@1"):
        page = centre.ask(OTHER_WORDS, fused)
        assert {item.external_ref for item in page.items[:3]} == {"chair", "hose", "transfer"}
        assert (place(page, "returns") or 0) > 3
    page = arbitrated(centre, OTHER_WORDS)
    assert page.manifest is not None
    assert page.manifest["query_class"] == "question"
    assert (page.verdict, page.manifest["arbitration_rule_id"]) == ("vector_privileged", "severe.apply_rule.vector")
    assert place(page, "returns") == 1
    assert page.legs.keyword.reason == "not_chosen"


def test_a_part_number_among_look_alikes(centre: Centre) -> None:
    """Numbers that differ by a digit are near in meaning, and their articles say `filter` where the right one says `cartridge`."""
    assert place(centre.ask(PART_NUMBER, "keyword@1"), "xj-900") == 1
    for other in ("vector@1", "rrf@1", "weighted@1"):
        page = centre.ask(PART_NUMBER, other)
        assert (page.items[0].external_ref or "")[:2] in ("xj", "xk")
        assert (place(page, "xj-900") or 0) > 1, other
    page = arbitrated(centre, PART_NUMBER)
    assert page.manifest is not None
    assert page.manifest["query_class"] == "identifier"
    assert (page.verdict, page.manifest["arbitration_rule_id"]) == ("advisory", "advisory.vector@identifier")
    assert place(page, "xj-900") == 1
    assert page.legs.vector.reason == "not_chosen"


SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"enable_indexscan": "off", "enable_bitmapscan": "off"},
    {"enable_seqscan": "off", "enable_hashjoin": "off"},
    {"enable_nestloop": "off", "enable_mergejoin": "off", "enable_sort": "off"},
    {"enable_hashagg": "off", "work_mem": "64kB"},
    {"plan_cache_mode": "force_generic_plan", "enable_material": "off"},
    {"plan_cache_mode": "force_custom_plan", "cpu_operator_cost": "100"},
)
"""Ways to have other plans made of the same search."""
REWRITES = (
    "UPDATE kbsearch.kb_articles SET title = title WHERE org_id = %(org)s AND id %% 3 = %(turn)s %% 3",
    "UPDATE kbsearch.kb_article_chunks SET content = content WHERE org_id = %(org)s AND id %% 3 = %(turn)s %% 3",
    "UPDATE kbsearch.kb_article_embeddings SET embedding = embedding WHERE org_id = %(org)s AND chunk_id %% 3 = %(turn)s %% 3",
)
"""They change nothing but where rows lie."""


@pytest.fixture(scope="module")
def vector(centre: Centre) -> list[float]:
    """Embedded once: it is the database that must not waver."""
    return [float(component) for component in centre.embedder.embed_queries([TIED])[0]]


@pytest.mark.parametrize("profile", ["help@1", "arbitrate@1", "arbitrate_reference@1"])
def test_a_tie_that_never_flips(centre: Centre, vector: list[float], profile: str) -> None:
    """Each leg has more articles of equal score than are compared, so that ids alone say which are: 100 calls say the same."""
    answers = set()
    connection = psycopg.connect(centre.dsn, autocommit=True)
    try:
        for turn in range(100):
            if turn % 7 == 6:
                connection.close()
                connection = psycopg.connect(centre.dsn, autocommit=True)
            for name, value in SETTINGS[turn % len(SETTINGS)].items():
                connection.execute("SELECT set_config(%s, %s, false)", [name, value])
            if turn % 5 == 4:
                connection.execute(REWRITES[turn // 5 % 3], {"org": centre.org_id, "turn": turn // 5})
            if turn % 20 == 19:
                for table in ("kb_articles", "kb_article_chunks", "kb_article_embeddings", "kb_postings"):
                    connection.execute(f"VACUUM ANALYZE kbsearch.{table}".encode())
            page = KBSearch(connection).search(centre.org_id, TIED, vector, profile=profile, limit=20)
            assert page.manifest is not None
            answers.add((page.verdict, page.manifest["manifest_digest"], json.dumps(page.manifest), repr(page.items)))
            connection.execute("RESET ALL")
            connection.execute("SET search_path = ''")
    finally:
        connection.close()
    assert len(answers) == 1
    assert page.manifest is not None
    assert page.manifest["vector_ranks"] == page.manifest["keyword_ranks"] == [1] * 5
    assert not set(page.manifest["vector_ranking"]) & set(page.manifest["keyword_ranking"])
    assert page.verdict == {"help@1": "vector_privileged", "arbitrate_reference@1": "escalated"}.get(
        profile, page.verdict
    )
