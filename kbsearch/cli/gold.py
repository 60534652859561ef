"""`kbsearch gold`: questions with judgements, kept in the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import (
    Checked,
    DsnOption,
    JsonOption,
    OrgOption,
    SchemaOption,
    clean,
    connected,
    console,
    counted,
    emit,
    find_organization,
)
from kbsearch.cli.complaints import complaining
from kbsearch.evaluate.collection import CollectionError
from kbsearch.evaluate.gold import (
    GoldError,
    add_judgements,
    articles_named,
    export_gold,
    gold_questions,
    gold_sets,
    import_gold,
    remove,
)
from kbsearch.schema import DEFAULT

gold = typer.Typer(no_args_is_help=True, help="Gold sets: questions, and which articles answer them.")

SetOption = Annotated[str, typer.Option("--set", metavar="NAME", help="Name of the gold set.")]
ArticleOption = Annotated[
    list[int] | None,
    typer.Option("--article", metavar="ID", help="Id of an article that answers; may be repeated.", show_default=False),
]
RefOption = Annotated[
    list[str] | None,
    typer.Option("--ref", help="The same by its external_ref; may be repeated.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(gold, name="gold")


@contextmanager
def _organization(org: str | None, dsn: str | None, schema: str) -> Iterator[tuple[Any, int]]:
    """A connection, and the id of the organisation; what is wrong with the request ends the command."""
    with complaining(GoldError, CollectionError), connected(dsn, schema) as connection:
        yield connection, find_organization(connection, org, schema).id


def _articles(connection: Any, org_id: int, ids: list[int] | None, refs: list[str] | None, schema: str) -> list[int]:
    known = articles_named(connection, org_id, refs or [], schema)
    if missing := [ref for ref in refs or [] if ref not in known]:
        raise GoldError(f"the organisation has no article {missing[0]!r}")
    return list(dict.fromkeys([*(ids or []), *(known[ref] for ref in refs or [])]))


@gold.command(cls=Checked)
def add(
    question: Annotated[str, typer.Argument(help="As a user asks it; or the ref of a question that is there.")],
    *,
    article: ArticleOption = None,
    ref: RefOption = None,
    grade: Annotated[
        int, typer.Option(min=0, help="How well: 0 does not answer, 1 and more does, the better the more.")
    ] = 1,
    gold_set: SetOption = "gold",
    org: OrgOption = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Note which articles answer a question. A grade that was noted before is replaced."""
    if not article and not ref:
        raise typer.BadParameter("say which articles: --article ID or --ref REF", param_hint="--article")
    with _organization(org, dsn, schema) as (connection, org_id):
        grades = dict.fromkeys(_articles(connection, org_id, article, ref, schema), grade)
        name = add_judgements(connection, org_id, gold_set, question, grades, schema=schema)
    if as_json:
        emit({"set": gold_set, "question": name, "judged": len(grades)})
    else:
        typer.echo(clean(f"{gold_set}: {counted(len(grades), 'article')} judged for question {name}."))


@gold.command("list", cls=Checked)
def list_sets(
    org: OrgOption = None, dsn: DsnOption = None, schema: SchemaOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """List the gold sets of an organisation."""
    with _organization(org, dsn, schema) as (connection, org_id):
        found = gold_sets(connection, org_id, schema)
    if as_json:
        emit(found)
        return
    table = Table("gold set", "questions", "judgements")
    for one in found:
        table.add_row(Text(clean(one.name)), f"{one.questions:,}", f"{one.judgements:,}")
    console().print(table)


@gold.command(cls=Checked)
def show(
    gold_set: SetOption = "gold",
    org: OrgOption = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Show the questions of a gold set, and the articles that are judged."""
    with _organization(org, dsn, schema) as (connection, org_id):
        found = gold_questions(connection, org_id, gold_set, schema)
    if as_json:
        emit(found)
        return
    output = console()
    for one in found:
        output.print(Text(clean(f"{one.ref}  {one.question}"), style="bold"))
        for entry in one.judgements:
            state = "" if entry.published else "  (not published: no search finds it)"
            title = f"  {entry.title}" if entry.title else ""
            output.print(Text(clean(f"  {entry.grade}  {entry.name}{title}{state}")))
        if not one.judgements:
            output.print(Text("  nothing is judged: it is not asked", style="yellow"))


@gold.command("remove", cls=Checked)
def remove_from(
    question: Annotated[
        str | None, typer.Argument(help="Text or ref of a question; without one, --all removes the set.")
    ] = None,
    *,
    article: Annotated[
        int | None, typer.Option("--article", metavar="ID", help="Only the judgement of this article.")
    ] = None,
    ref: Annotated[str | None, typer.Option("--ref", help="The same by its external_ref.")] = None,
    whole: Annotated[bool, typer.Option("--all", help="Remove the whole gold set.")] = False,
    gold_set: SetOption = "gold",
    org: OrgOption = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
) -> None:
    """Remove a question, an article's judgement, or a whole gold set."""
    if whole == (question is not None) or (whole and (article is not None or ref is not None)):
        raise typer.BadParameter("name a question, or remove the whole set by --all")
    with _organization(org, dsn, schema) as (connection, org_id):
        articles = _articles(connection, org_id, [article] if article is not None else [], [ref] if ref else [], schema)
        if len(articles) > 1:
            raise typer.BadParameter("--article and --ref name two articles", param_hint="--ref")
        remove(connection, org_id, gold_set, question=question, article_id=next(iter(articles), None), schema=schema)
    typer.echo(clean(f"Removed from {gold_set}." if question is not None else f"Removed {gold_set}."))


@gold.command("import", cls=Checked)
def import_folder(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a collection; its documents are not read.")],
    *,
    gold_set: SetOption = "gold",
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out judgements of documents that are no articles.")
    ] = False,
    org: OrgOption = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Add a collection's questions and judgements to a gold set; its document ids are the articles' external_refs."""
    with _organization(org, dsn, schema) as (connection, org_id):
        questions, judgements, skipped = import_gold(
            connection, org_id, gold_set, folder, skip_missing=skip_missing, schema=schema
        )
    if as_json:
        emit({"set": gold_set, "questions": questions, "judgements": judgements, "skipped": skipped})
        return
    left = f"; {counted(skipped, 'judgement')} of documents that are no articles left out" if skipped else ""
    typer.echo(clean(f"{gold_set}: {counted(questions, 'question')}, {counted(judgements, 'judgement')}{left}."))


@gold.command("export", cls=Checked)
def export_folder(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make; must be missing or empty.")],
    *,
    gold_set: SetOption = "gold",
    org: OrgOption = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
) -> None:
    """Write a gold set, and the published articles as its documents, into a folder that evaluate and import read."""
    with _organization(org, dsn, schema) as (connection, org_id):
        export_gold(connection, org_id, gold_set, folder, schema)
    typer.echo(clean(f"Wrote {folder}."))
