"""The command line: `gradedsparse COMMAND`; each command imports only what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from gradedsparse.errors import GradedSparseError

BAD_INPUT = 2
FAILED = 1


class OneLineErrors(TyperGroup):
    """Bad input becomes one line on standard error and exit code 2, without a traceback."""

    def invoke(self, ctx: typer.Context) -> object:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except (GradedSparseError, typer.BadParameter) as error:
            message = error.format_message() if isinstance(error, typer.BadParameter) else error
            typer.echo(f"gradedsparse: {message}", err=True)
            raise typer.Exit(BAD_INPUT) from error


class PairedParameters(TyperCommand):
    """A command whose option `-p` takes two words, NAME VALUE, as papermill's does."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        """Joins the two words of each `-p` before the ordinary parsing."""
        return super().parse_args(ctx, joined_pairs(args))


def joined_pairs(words: list[str]) -> list[str]:
    """`-p NAME VALUE` as `-p NAME=VALUE`; a pair that is already joined stays."""
    joined, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        joined.append(word)
        if word in ("-p", "--parameter") and rest:
            pair = rest.pop(0)
            joined.append(pair if "=" in pair or not rest else f"{pair}={rest.pop(0)}")
    return joined


def parameter_values(pairs: list[str]) -> dict[str, str]:
    """The text of each value by name, from NAME=VALUE pairs.

    Raises GradedSparseError for a pair without value and for a repeated name.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise GradedSparseError(f"parameter {name} has no value: -p NAME VALUE")
        if name in values:
            raise GradedSparseError(f"parameter {name} is given twice")
        values[name] = value
    return values


app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    no_args_is_help=True,
    help="Graded sparse mechanisms: the library, and the book that it computes.",
)

ProfileOption = Annotated[str, typer.Option("--profile", help="Set of parameters: quick, default or paper.")]


# --- the library: simulate, certify, verify ---------------------------------------------------


@app.command()
def simulate(
    out: Annotated[Path | None, typer.Option(help="File of states to write (.npz).")] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Instead of --out: make this data set and its manifest entry."),
    ] = None,
    replicas: Annotated[int, typer.Option(help="Independent flocks.")] = 100,
    per_replica: Annotated[int, typer.Option(help="States from each flock, seen from particles far apart.")] = 1,
    seed: Annotated[int, typer.Option(help="One integer; replica i depends on it and on i.")] = 1,
    workers: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Run on the Dask cluster of this scheduler instead, e.g. tcp://host:8786."),
    ] = None,
    rule: Annotated[str, typer.Option(help="ball, bump, gaussian or cauchy.")] = "ball",
    r: Annotated[float | None, typer.Option(help="Radius of the ball rule; 1 by default.")] = None,
    r_b: Annotated[float | None, typer.Option(help="Radius of the bump rule; 1.4 by default.")] = None,
    form: Annotated[
        str | None,
        typer.Option(help="Form of the bump: linear, squared (default), cubed or exponential."),
    ] = None,
    h: Annotated[float | None, typer.Option(help="Bandwidth; 0.5 by default (Gaussian), 0.9 (Cauchy).")] = None,
    a: Annotated[float | None, typer.Option(help="Exponent of the Cauchy rule; 3 by default.")] = None,
    dropped: Annotated[
        float | None,
        typer.Option(
            help="Share of the weight beyond the cutoff, Gaussian and Cauchy; 1e-4 by default, 0: half the box."
        ),
    ] = None,
    eta: Annotated[float, typer.Option(help="Width of the noise, radians.")] = 1.2,
    n_particles: Annotated[int, typer.Option(help="Particles in a flock.")] = 3200,
    box: Annotated[float, typer.Option(help="Side of the periodic box.")] = 40.0,
    speed: Annotated[float, typer.Option(help="Distance covered in a step.")] = 0.5,
    burn_in: Annotated[int, typer.Option(help="Steps before the state is taken.")] = 3000,
    truncate: Annotated[float, typer.Option(help="Share of a state's weight that may be left out of the file.")] = 0.0,
) -> None:
    """Simulate independent flocks and keep what one particle of each sees, or several.

    Finished replicas are kept in a folder beside the file, so the same command resumes after an
    interruption; the folder is removed at the end.
    """
    from gradedsparse.flock import Parameters, make_file, recipe

    parameters = Parameters(
        rule=rule, r=r, r_b=r_b, form=form, h=h, a=a, dropped=dropped,
        eta=eta, n_particles=n_particles, box=box, speed=speed, burn_in=burn_in,
    )  # fmt: skip
    if (out is None) == (name is None):
        raise GradedSparseError("give either --out FILE or --name DATA_SET")
    if name is None:
        make_file(out, parameters, replicas, seed, truncate, workers, per_replica, scheduler)
        typer.echo(f"{replicas * per_replica} states in {out}")
        return
    from gradedsparse import data

    path = data.directory() / f"{name}.npz"
    make_file(path, parameters, replicas, seed, truncate, workers, per_replica, scheduler)
    entry = data.register(name, recipe(name, data.provenance(path)))
    typer.echo(f"data set {name}: {entry['states']} states, {entry['bytes']} bytes, {entry['sha256'][:12]}")


@app.command()
def certify(
    states: Annotated[Path, typer.Argument(help="Table of states (.csv, .parquet, .npz): one row an atom.")],
    second: Annotated[Path | None, typer.Argument(help="Half B; without it the first file is split at random.")] = None,
    space: Annotated[str, typer.Option(help="circle (angles in radians) or ball.")] = "circle",
    kappa: Annotated[float | None, typer.Option(help="Diameter of the value space; pi on the circle.")] = None,
    delta: Annotated[float, typer.Option(help="Probability that the certificate fails.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the random split.")] = 0,
    state: Annotated[str, typer.Option(help="Column that says which state a row belongs to.")] = "state",
    weight: Annotated[str, typer.Option(help="Column of weights.")] = "weight",
    value: Annotated[
        list[str] | None,
        typer.Option(help="Column of values; repeat it in a ball of more dimensions."),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write a file that `verify` checks.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the terms as JSON.")] = False,
) -> None:
    """Certify generalization from your own states: transport distance of two halves plus concentration."""
    import json

    from gradedsparse import certificate, certificate_file
    from gradedsparse._arguments import require_writable_path
    from gradedsparse.tables import read_table, space_named

    if save is not None:
        require_writable_path(save)
    columns = value or ["value"]
    where = space_named(space, kappa, len(columns))
    A = read_table(states, where, state, weight, columns)
    if second is None:
        A, B = certificate.halves(A, seed)
    else:
        B = read_table(second, where, state, weight, columns)
    result = certificate.certify(A, B, delta, progress=True)
    if save is not None:
        certificate_file.save(save, result, A, B)
    if as_json:
        terms = ("value", "w1", "lower", "concentration", "delta", "n_a", "n_b")
        typer.echo(json.dumps({term: getattr(result, term) for term in terms} | {"kappa": where.kappa}))
    else:
        typer.echo(result.summary())


@app.command()
def verify(
    certificate: Annotated[Path, typer.Argument(help="A file that `certify --save` wrote.")],
) -> None:
    """Check a saved certificate from its states alone, every pair, without the solver that made it."""
    from gradedsparse.certificate_file import verify as check

    proved = check(certificate)
    typer.echo(
        f"verified: certificate {proved['value']:.6f} kappa at delta = {proved['delta']:g} "
        f"(W1 between {proved['lower']:.6f} and {proved['w1']:.6f}, {proved['n_a']} and {proved['n_b']} states)"
    )


# --- the book ---------------------------------------------------------------------------------


@app.command()
def book(profile: ProfileOption = "default") -> None:
    """Execute every chapter that is out of date and render the site."""
    from gradedsparse.book.build import build_book
    from gradedsparse.book.execute import BuildError
    from gradedsparse.book.layout import Layout, find_root

    try:
        page = build_book(Layout(find_root()), profile)
    except BuildError as failure:
        typer.echo(str(failure), err=True)
        raise typer.Exit(FAILED) from failure
    typer.echo(f"open {page}")


@app.command(cls=PairedParameters)
def rerun(
    chapter: Annotated[str, typer.Argument(help="Its number (04) or the beginning of its name.")] = "",
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="NAME VALUE", help="A value to change."),
    ] = None,
    profile: ProfileOption = "default",
    clear: Annotated[bool, typer.Option("--clear", help="Remove all reruns instead.")] = False,
) -> None:
    """Execute one chapter with other parameters, and render it beside the default page.

    For example: gradedsparse rerun 04 -p n 2000 -p delta 0.01
    """
    from gradedsparse.book.build import rerun_chapter
    from gradedsparse.book.execute import BuildError
    from gradedsparse.book.layout import Layout, find_root
    from gradedsparse.book.rerun import clear_reruns

    layout = Layout(find_root())
    if clear:
        typer.echo(f"reruns removed: {clear_reruns(layout)}; the next `make book` drops their pages")
        return
    try:
        page = rerun_chapter(layout, chapter, parameter_values(parameter or []), profile)
    except BuildError as failure:
        typer.echo(str(failure), err=True)
        raise typer.Exit(FAILED) from failure
    typer.echo(f"open {page}")


@app.command()
def doctor() -> None:
    """Check that everything the book needs is here: one OK, NOTE or FAIL a line, with the mend."""
    from gradedsparse.book.layout import find_root
    from gradedsparse.doctor import main

    raise typer.Exit(main(find_root()))
