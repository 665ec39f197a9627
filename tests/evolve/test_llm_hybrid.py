"""Templates that a model writes: read strictly, rendered, had back from their kernels, and tuned by the search."""

import dataclasses

import pytest

from agents.evolve.budget import Caps, Cost
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.llm.written import WrittenError, read_template
from agents.evolve.model import Proposal
from agents.evolve.proposers import find_proposer
from agents.evolve.proposers.hybrid import Hybrid
from tests.evolve.llm_kit import Ledger, Watcher, client_of
from tests.evolve.llm_requests import TASK, candidate, failed, keep, request_of
from tests.evolve.llm_runs import ARMS
from tests.evolve.llm_server import Reply, script, serve

HEAD = """\
// TEMPLATE tiled rows
// GENE TILE_M: 1 2 4
// GENE STAGING: none, packed
// NAIVE TILE_M=1 STAGING=none
// DEFAULT TILE_M=4 STAGING=packed
"""
BODY = """\
#include <torch/extension.h>
#if STAGING == STAGING_PACKED
int forward_packed = TILE_M;
#endif
"""
TEMPLATE = read_template(HEAD + BODY, "cpp", TASK)


def test_it_reads_genes_and_settings():
    assert [(gene.name, gene.values, gene.ordinal) for gene in TEMPLATE.space.genes] == [
        ("TILE_M", (1, 2, 4), True),
        ("STAGING", ("none", "packed"), False),
    ]
    assert TEMPLATE.naive == {"TILE_M": 1, "STAGING": "none"}
    assert TEMPLATE.default == {"TILE_M": 4, "STAGING": "packed"}
    assert (TEMPLATE.summary, TEMPLATE.space.size) == ("tiled rows", 6)


def test_a_rendered_kernel_stands_alone_and_gives_its_template_back():
    source = TEMPLATE.render(TEMPLATE.default, TASK)
    assert "#define TILE_M 4\n" in source
    assert "#define STAGING_PACKED 1\n#define STAGING STAGING_PACKED\n" in source
    assert source.endswith(BODY)
    for genome in TEMPLATE.space.genomes:
        assert read_template(TEMPLATE.render(genome, TASK), "cpp", TASK) == TEMPLATE


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("// TEMPLATE tiled rows\n", "int x;\n", "does not begin with"),
        ("// TEMPLATE tiled rows\n", "", "one line // TEMPLATE"),
        ("// NAIVE TILE_M=1 STAGING=none\n", "", "one line // NAIVE"),
        ("TILE_M: 1 2 4", "tile_m: 1 2 4", "a gene is written as"),
        ("TILE_M: 1 2 4", "TILE_M: 1 two 4", "neither all whole numbers"),
        ("TILE_M: 1 2 4", "TILE_M: 1", "2 to 12 different values"),
        ("TILE_M: 1 2 4", "TILE_M: 1 1 4", "2 to 12 different values"),
        ("STAGING: none, packed", "TILE_M: 1 2", "different names"),
        ("TILE_M=4 STAGING=packed", "TILE_M=4", "is not a setting"),
        ("TILE_M=4 STAGING=packed", "TILE_M=3 STAGING=packed", "TILE_M has no value 3"),
        ("// GENE TILE_M", "// GENE UNUSED: 1 2\n// GENE TILE_M", "does not use UNUSED"),
        ("// GENE STAGING: none, packed\n", "// GENE STAGING: none, system(x)\n", "neither all whole numbers"),
    ],
)
def test_what_is_no_template_is_refused_with_the_reason(old, new, said):
    with pytest.raises(WrittenError, match=said.replace("(", r"\(")):
        read_template(HEAD.replace(old, new) + BODY, "cpp", TASK)


def test_too_many_settings_are_refused():
    genes = "".join(f"// GENE G{n}: 1 2 3 4 5 6 7 8\n" for n in range(6))
    with pytest.raises(WrittenError, match="more than 5000"):
        read_template(genes + HEAD + BODY + "".join(f"// G{n}\n" for n in range(6)), "cpp", TASK)


def kernel(name, genome, score, **changes):
    source = TEMPLATE.render(genome, TASK)
    changes = {"params": dict(genome), "template": TEMPLATE.name, "arm": "an arm", **changes}
    return dataclasses.replace(candidate(name, score), source_sha256=keep(source), **changes)


def hybrid(server=None):
    return Hybrid(client_of(server or type("Server", (), {"url": "http://127.0.0.1:1"})), ARMS)


async def answered(text, request):
    async with serve(script(Reply(text=text))) as server:
        proposer = hybrid(server)
        return await proposer.propose(request, Ledger(proposer.bound(request)), Watcher())


async def test_the_model_writes_a_template_and_its_plain_setting_is_judged_first():
    text = f"NAME: rows\nTHOUGHT: tiles\nCODE:\n```cpp\n{HEAD}{BODY}```"
    answer = await answered(text, request_of(stage="translate", generation=0))
    assert (answer.source, answer.params) == (TEMPLATE.render(TEMPLATE.naive, TASK), TEMPLATE.naive)
    assert (answer.template, answer.name) == (TEMPLATE.name, "rows")
    assert answer.arm in {arm.name for arm in ARMS}


async def test_a_kernel_without_genes_is_refused():
    answer = await answered("CODE:\n```cpp\nint forward;\n```", request_of(stage="translate", generation=0))
    assert (answer.reason, "does not begin with" in answer.text) == ("template_error", True)


async def steps(request, slots):
    proposer = hybrid()
    requests = [dataclasses.replace(request, slot=slot) for slot in range(slots)]
    tuned = [item for item in requests if proposer.bound(item) == Cost()]
    return tuned, [await proposer.propose(item, Ledger(Cost()), Watcher()) for item in tuned]


async def test_most_slots_tune_for_nothing_and_no_two_the_same():
    request = request_of(parents=[kernel("0-0", TEMPLATE.naive, 1.0)], generation=1)
    tuned, answers = await steps(request, 5)
    assert len(tuned) >= 2
    proposals = [item for item in answers if isinstance(item, Proposal)]
    assert proposals[0].params == TEMPLATE.default
    assert proposals[0].thought == "The best guess before any measurement: TILE_M 4, STAGING packed."
    keys = [TEMPLATE.space.key(item.params) for item in proposals]
    assert len(set(keys)) == len(keys)
    assert TEMPLATE.space.key(TEMPLATE.naive) not in keys
    assert {item.arm for item in proposals} == {"an arm"}


async def test_without_money_every_slot_tunes():
    request = request_of(parents=[kernel("0-0", TEMPLATE.naive, 1.0)], generation=1, budget=Caps(usd=0.0))
    tuned, _ = await steps(request, 5)
    assert len(tuned) == 5


def test_a_template_whose_first_two_settings_fail_is_given_up():
    wrong = [
        dataclasses.replace(failed(f"{n}-0"), params=dict(genome), template=TEMPLATE.name)
        for n, genome in enumerate([TEMPLATE.naive, TEMPLATE.default])
    ]
    wrong = [dataclasses.replace(item, source_sha256=keep(TEMPLATE.render(item.params, TASK))) for item in wrong]
    request = request_of(parents=wrong, stage="translate", generation=2, budget=Caps(usd=0.0))
    assert hybrid().bound(request).usd > 0


def test_it_is_for_languages_with_macros():
    config = RunConfig(TASK.name, language="triton", proposer="hybrid", caps=Caps(usd=1.0))
    with pytest.raises(ConfigError, match="not in triton"):
        find_proposer(config, {"api_key": "k"})
