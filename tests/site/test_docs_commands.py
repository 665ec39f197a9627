"""The commands, addresses and names in the documents are those of the code.

Every command line parses with the parser that would run it, every page and every operation of the API exists with its
parameters, and so do settings, files and targets of make. Nothing is run. The log is left out: it tells of earlier
days.
"""

import argparse
import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import click
import pytest
from django.core.management import CommandError, get_commands, load_command_class
from django.urls import Resolver404, resolve

from agents.evolve.__main__ import _parser
from kbench_site.cli import main
from kbench_site.env import VARIABLES
from kbench_site.urls import api

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name != "log.md")]
SHELLS = ("sh", "bash", "")
PLACEHOLDERS = {
    "SUITE": "robust-kbench", "OP": "mnist_pool", "DIRECTION": "forward", "DEVICE": "cpu", "NUMBER": "1",
    "ID": "0f8fad5b-d9cb-469f-a165-70867728950e", "CODE": "0f8fad5b-d9cb-469f-a165-70867728950e", "USD": "1",
    "NAME": "nina", "<name>": "template-evo", "SLUG": "nina", "KEY": "k1",
}  # fmt: skip
FOLDERS = ("agents", "benchmarks", "deploy", "docs", "kbench_site", "lab", "scripts", "templates", "tests")
OF_THE_SYSTEM = ("/usr", "/opt", "/etc", "/var", "/proc", "/sys", "/srv", "/mcp", "/.well-known")
MADE_WHEN_RUN = ("docs/results/redteam/DEVICE.json",)


def test_pages_are_read() -> None:
    assert {"README.md", "user-guide.md", "settings.md"} <= {page.name for page in PAGES}
    assert len(list(commands("kbench"))) > 40
    assert len(list(commands("manage.py"))) > 15
    assert len(operations_told()) > 60
    assert len(pages_told()) > 40


@pytest.fixture(params=PAGES, ids=lambda page: page.name)
def page(request: pytest.FixtureRequest) -> Path:
    return request.param


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Each fenced block: its language and its text."""
    yield from re.findall(r"^```([a-z]*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def spans(page: Path) -> Iterator[str]:
    """What stands between backticks, outside of fenced blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`]+)`", text):
        yield " ".join(span.replace("\\|", "|").split())


def lines(page: Path) -> Iterator[tuple[str, bool]]:
    """Each line that a shell could be given, and whether it is complete: a sentence may name a part of a command."""
    for language, text in blocks(page):
        if language in SHELLS:
            yield from ((line, True) for line in text.replace("\\\n", " ").splitlines())
    yield from ((span, False) for span in spans(page))


def commands(program: str, pages: list[Path] | None = None) -> Iterator[tuple[list[str], bool]]:
    """The arguments of every documented call of a program, and whether the call is complete."""
    for page in pages or PAGES:
        for line, complete in lines(page):
            for part in re.split(r"\s*(?:&&|\||;)\s+|\$\((?=kbench )", line.removesuffix(")")):
                words = _words(part)
                while words and re.fullmatch(r"[A-Z_]+=.*|sudo|export|exec|\.venv/bin/python|python3?", words[0]):
                    del words[0]
                if words and words[0].removeprefix(".venv/bin/") == program:
                    yield words[1:], complete


def _words(line: str) -> list[str]:
    if not re.match(r"[\w./$<-]", line):
        return []
    try:
        return shlex.split(re.sub(r"\$\(date [^)]*\)", "today", line), comments=True)
    except ValueError:  # text of another kind, with an apostrophe
        return []


def test_every_kbench_command_parses(page: Path) -> None:
    for arguments, complete in commands("kbench", [page]):
        if arguments and not arguments[0].startswith("-"):
            assert arguments[0] in main.commands, arguments
            parse(main.commands[arguments[0]], arguments[1:], complete=complete)


def parse(command: click.Command, arguments: list[str], *, complete: bool) -> None:
    """Raises click.UsageError. Files are not looked for."""
    context = click.Context(command, info_name=command.name, resilient_parsing=not complete)
    given, rest, _ = command.make_parser(context).parse_args(list(arguments))
    assert not rest, (command.name, rest)
    for parameter in command.params:
        value = given.get(parameter.name)
        if complete and parameter.required:
            assert isinstance(value, str | tuple), (command.name, parameter.name, arguments)
            assert value, (command.name, parameter.name, arguments)
        if isinstance(parameter.type, click.Choice | click.types.IntParamType | click.types.FloatParamType) and value:
            for one in value if isinstance(value, list | tuple) else [value]:
                parameter.type.convert(PLACEHOLDERS.get(one, one), parameter, context)


@pytest.mark.parametrize("wrong", ["tasks --sute x", "submit layernorm/forward", "run pool --judgings many", "mcp x"])
def test_a_wrong_kbench_command_is_found(wrong: str) -> None:
    name, *arguments = wrong.split()
    with pytest.raises((click.UsageError, AssertionError)):
        parse(main.commands[name], arguments, complete=True)


@pytest.mark.parametrize("program", ["manage.py", "kbench-manage"])
def test_every_management_command_parses(page: Path, program: str) -> None:
    for arguments, complete in commands(program, [page]):
        if arguments:
            manage(arguments, complete=complete)


def manage(arguments: list[str], *, complete: bool) -> None:
    """Raises CommandError, or KeyError for an unknown command."""
    name, *given = [PLACEHOLDERS.get(argument, argument) for argument in arguments]
    app = get_commands()[name]
    command = load_command_class(app, name) if isinstance(app, str) else app
    try:
        command.create_parser("manage.py", name).parse_args(given)
    except CommandError as error:
        if complete or "are required" not in str(error):
            raise


def test_a_wrong_management_command_is_found() -> None:
    with pytest.raises(CommandError):
        manage(["restore", "file", "--discard"], complete=True)
    with pytest.raises(CommandError):
        manage(["restore"], complete=True)
    with pytest.raises(KeyError):
        manage(["backups", "file"], complete=True)


def test_every_python_module_exists_and_has_its_options(page: Path) -> None:
    for line, complete in lines(page):
        for module, rest in re.findall(r"python3? -m ([\w.]+)([^`|;#\n]*)", line):
            if module == "agents.evolve":
                searched(_words(f"x {rest}")[1:], complete=complete)
                continue
            spec = importlib.util.find_spec(module)
            assert spec is not None, (page.name, module)
            assert spec.origin is not None, (page.name, module)
            text = Path(spec.origin).read_text()
            if spec.submodule_search_locations:
                text = (Path(spec.origin).parent / "__main__.py").read_text()
            assert '__name__ == "__main__"' in text or spec.submodule_search_locations, (page.name, module)
            assert all(f'"{option}"' in text for option in re.findall(r"(?<=\s)--[a-z-]+", rest)), (page.name, line)


def searched(arguments: list[str], *, complete: bool) -> None:
    parser = _parser()
    if complete or "--" in " ".join(arguments):
        given = parser.parse_args([PLACEHOLDERS.get(argument, argument) for argument in arguments])
        assert isinstance(given, argparse.Namespace)


def test_every_target_of_make_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {next(word for word in words[::-1] if "=" not in word) for words, _ in commands("make", [page]) if words}
    assert named <= targets


def test_every_setting_exists(page: Path) -> None:
    """One of the site, or a variable that the commands, the tests or a tool read."""
    named = set(re.findall(r"\bKBENCH_[A-Z_]*[A-Z]\b", page.read_text()))
    for name in named - set(VARIABLES):
        assert name in read_elsewhere(), (page.name, name)


@cache
def read_elsewhere() -> set[str]:
    folders = ("kbench_site/cli", "tests", "lab", "scripts")
    files = [file for folder in folders for file in (ROOT / folder).glob("**/*.py") if file != Path(__file__)]
    return {name for file in files for name in re.findall(r'"(KBENCH_[A-Z_]+)"', file.read_text())}


def pages_told() -> list[tuple[str, str]]:
    """Addresses of pages, without method: `/tasks/`."""
    return [
        (page.name, span)
        for page in PAGES
        for span in spans(page)
        if re.fullmatch(r"/[\w./?=&,:-]*", span) and not span.startswith(OF_THE_SYSTEM)
    ]


@pytest.mark.parametrize(("page_name", "address"), pages_told())
def test_every_address_of_a_page_resolves(page_name: str, address: str) -> None:
    path = address.partition("?")[0]
    if path in ("/", "/api/", "/api/v1/", "/events/", "/admin/"):
        return
    filled = re.sub(r"[A-Z]{2,}", lambda word: PLACEHOLDERS[word.group()], path)
    try:
        resolve(filled)
    except Resolver404:
        pytest.fail(f"{page_name}: there is no page {filled}")


def operations_told() -> list[tuple[str, str, str]]:
    """Operations of the API: `GET tasks?q=`, in a table or a sentence, and the addresses given to curl."""
    told = []
    for page in PAGES:
        for span in spans(page):
            for method, address in re.findall(r"^(GET|POST|PATCH|DELETE|PUT) (\S+)$", span):
                told.append((page.name, method, address))
        for language, text in blocks(page):
            for address in re.findall(r'curl [^\n]*"\$KBENCH_URL(/[^"]+)"', text) if language in SHELLS else ():
                told.append((page.name, "POST" if " -d " in text else "GET", address))
    return [(name, method, address) for name, method, address in told if not address.startswith("/events/")]


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(api.get_openapi_schema(), default=str))
    return found["paths"]


@pytest.mark.parametrize(("page_name", "method", "address"), operations_told())
def test_every_operation_of_the_api_exists(
    described: dict[str, Any], page_name: str, method: str, address: str
) -> None:
    path, _, query = address.removeprefix("/api/v1").strip("/").partition("?")
    found = [operations for known, operations in described.items() if same(known, path)]
    operation = next((operations[method.lower()] for operations in found if method.lower() in operations), None)
    assert operation is not None, f"{page_name}: the API has no {method} {path}"
    parameters = {item["name"] for item in operation.get("parameters", []) if item["in"] == "query"}
    named = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    assert named <= parameters, f"{page_name}: {method} {path} has no {named - parameters}"


def same(known: str, told: str) -> bool:
    """Whether an address of the description is the one of a document, whatever the variable parts are called."""
    parts, others = known.removeprefix("/api/v1").strip("/").split("/"), told.split("/")
    return len(parts) == len(others) and all(
        one == other or one.startswith("{") for one, other in zip(parts, others, strict=True)
    )


def test_bodies_given_to_curl_have_fields_that_the_api_knows() -> None:
    told = [
        (address, set(re.findall(r'[{,] ?"?(\w+)"?: ', body)))
        for page in PAGES
        for language, text in blocks(page)
        for address, body in re.findall(r'curl [^\n]*"\$KBENCH_URL(/[^"]+)".*?(\{.*\})', text, re.DOTALL)
        if language in SHELLS
    ]
    assert len(told) >= 2
    for address, names in told:
        assert {"task"} < names <= fields(address), (address, names - fields(address))


def fields(address: str) -> set[str]:
    schema = json.loads(json.dumps(api.get_openapi_schema(), default=str))
    body = schema["paths"][address]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return set(schema["components"]["schemas"][body["$ref"].rsplit("/", 1)[-1]]["properties"])


def test_every_file_of_the_checkout_exists(page: Path) -> None:
    for span in spans(page):
        if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]*", span) and span not in MADE_WHEN_RUN:
            assert (ROOT / span).exists(), (page.name, span)
        if re.fullmatch(r"(harness|gpu|child|headers)/[\w./-]+\.\w+", span):
            homes = ("benchmarks", "benchmarks/harness", "benchmarks/harness/compilers", "benchmarks/emulator")
            assert any((ROOT / home / span).exists() for home in homes), (page.name, span)
