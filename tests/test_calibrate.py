"""Calibration recovers thresholds that were planted, and promises nothing that the evidence does not hold."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import decoders
from unmask.diagnostics.calibrate import Request, calibrate, decode, evidence, rules, summary
from unmask.diagnostics.calibrate.bounds import bound, intraclass_correlation
from unmask.diagnostics.calibrate.page import page
from unmask.errors import UserError
from unmask.report.stats import binomial_upper, mcnemar_one_sided, paired_mean

LAYERS, FIRST = 16, 9
WINDOW = LAYERS - FIRST + 1


def planted(n=16_000, questions=800, seed=0, error=None, K=None, drop=None, E=None) -> evidence.Tokens:
    """Tokens whose error rate is error(c, K, r); K and r are drawn by the given functions of (rng, n)."""
    rng = np.random.default_rng(seed)
    c = rng.uniform(0.2, 1.0, n)
    length = (K or (lambda rng, n: rng.integers(1, WINDOW + 1, n)))(rng, n)
    r = np.where(length > 1, (drop or (lambda rng, n: rng.uniform(0, 0.4, n)))(rng, n), 0.0)
    r = np.minimum(r, 1 - c)
    wrong = rng.random(n) < (error or (lambda c, K, r: np.where(c >= 0.8, 0.002, 0.3)))(c, length, r)
    suffixes = [[float(a), *([float(a + b)] * (k - 1))] for a, b, k in zip(c, r, length, strict=True)]
    energy = (E or (lambda rng, n: rng.uniform(0, 3, n)))(rng, n)
    return evidence.tokens(rng.integers(0, questions, n), energy, ~wrong, suffixes)


def propose(tokens, risk=0.02, beta=4.0):
    return rules.propose(tokens, risk, LAYERS, FIRST, beta)


# --- bounds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "n", "upper"), [(0, 10, 0.2589), (1, 20, 0.2161), (3, 100, 0.0757), (5, 5, 1.0)])
def test_clopper_pearson_by_the_book(wrong, n, upper):
    assert binomial_upper(wrong, n) == pytest.approx(upper, abs=2e-4)


def test_the_bound_is_the_rate_whose_lower_tail_is_alpha():
    p = binomial_upper(4, 60)
    assert sum(math.comb(60, k) * p**k * (1 - p) ** (60 - k) for k in range(5)) == pytest.approx(0.05)


def test_correlated_tokens_are_worth_less():
    question = np.repeat(np.arange(50), 20)
    wrong = question % 10 == 0  # whole questions fail
    assert intraclass_correlation(wrong, question) == pytest.approx(1.0)
    alike = bound(wrong, question, 1.0)
    assert alike.effective == pytest.approx(50) and alike.upper == binomial_upper(5, 50)
    scattered = np.random.default_rng(0).random(1000) < 0.1
    assert intraclass_correlation(scattered, question) < 0.02
    assert bound(scattered, question, 0.0).effective == 1000
    assert bound(np.zeros(0, dtype=bool), np.zeros(0, dtype=int), 0.0).upper == 1.0


def test_the_bound_covers_in_clustered_samples():
    """Of 200 samples in clusters, at most about one in twenty has a bound below the truth."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(200):
        question = np.repeat(np.arange(150), 8)
        rate = rng.beta(0.05, 0.95, 150)  # 5 % on average, very unequal
        wrong = rng.random(1200) < rate[question]
        missed += bound(wrong, question, intraclass_correlation(wrong, question)).upper < 0.05
    assert missed <= 20


# --- planted thresholds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planted_at", [0.6, 0.75, 0.9])
def test_theta_h_is_recovered(planted_at):
    tokens = planted(error=lambda c, K, r: np.where(c >= planted_at, 0.004, 0.5))
    found = propose(tokens).choices["theta_h"]
    assert planted_at - 0.03 <= found.value <= planted_at + 0.011
    assert found.tried[-1].allowed is False or found.value == rules.CONFIDENCES[-1]


def test_little_evidence_begins_with_the_strict_thresholds():
    """Between one and four times the tokens that a bound needs: the laxest threshold has the most of them, and its
    failure says nothing of the strict ones."""
    tokens = planted(n=500, questions=500, error=lambda c, K, r: np.where(c >= 0.6, 0.0, 0.5))
    found = propose(tokens).choices["theta_h"]
    assert rules.Risk(0.02, tokens).needed < 200 and 0.57 <= found.value <= 0.8


def test_layers_that_say_nothing_are_switched_off():
    said = []
    for seed in range(4):
        proposal = propose(planted(seed=seed, error=lambda c, K, r: np.where(c >= 0.9, 0.002, 0.25)))
        assert not proposal.route and proposal.choices["theta_c"].value == proposal.choices["theta_h"].value
        said.append(proposal.choices["theta_c"].why)
    # One interval in twenty misses; even then no rule is certified.
    assert sum("neither persistence nor the drop" in why for why in said) >= 3
    policy = decoders.get("rpd", **proposal.params())
    assert policy.keep_from(LAYERS) == LAYERS  # no layer is read


def test_layers_that_inform_are_kept():
    """Between 0.5 and 0.9 exactly the tokens with K >= 4 and r <= 0.2 are right."""
    tokens = planted(error=lambda c, K, r: np.where((c >= 0.9) | ((c >= 0.5) & (K >= 4) & (r <= 0.2)), 0.001, 0.6))
    proposal = propose(tokens)
    assert proposal.route
    values = proposal.params()
    assert values["theta_h"] == pytest.approx(0.9, abs=0.015)
    assert values["theta_s"] == 3.5
    assert 0.19 <= (values["k_max"] - values["theta_s"]) / values["w"] <= 0.21
    assert 0.45 <= values["theta_c"] <= 0.6
    assert proposal.signals[0].informative and proposal.signals[1].informative
    assert proposal.measured.upper <= 0.02


def test_a_drop_that_says_nothing_costs_nothing():
    tokens = planted(error=lambda c, K, r: np.where((c >= 0.9) | ((c >= 0.5) & (K >= 5)), 0.001, 0.6))
    values = propose(tokens).params()
    assert values["theta_s"] == 4.5 and values["w"] == 0.0


def test_the_window_is_no_deeper_than_the_verdicts_need():
    """Suffixes of at most six layers: the two layers below decide nothing."""
    tokens = planted(
        K=lambda rng, n: rng.integers(1, 7, n),
        error=lambda c, K, r: np.where((c >= 0.9) | ((c >= 0.5) & (K >= 4)), 0.001, 0.6),
    )
    assert propose(tokens).params()["first_layer"] == LAYERS - 4 + 1  # K >= 4 needs four layers where w is 0


def test_the_budget_ends_where_confident_tokens_fail():
    rare = {"n": 60_000, "questions": 3_000, "error": lambda c, K, r: np.full(len(c), 0.002)}
    tokens = planted(**rare, E=lambda rng, n: rng.uniform(0, 16, n))
    wrong = (tokens.E > 8) & (np.random.default_rng(5).random(len(tokens)) < 0.2)
    spoiled = replace(tokens, right=tokens.right & ~wrong)
    assert propose(spoiled).choices["beta"].value == 8.0
    assert propose(tokens).choices["beta"].value == 16.0
    short = planted(error=lambda c, K, r: np.full(len(c), 0.002))  # no state beyond 3 nats
    assert propose(short).choices["beta"].value == 4.0 and "too few" in propose(short).choices["beta"].why


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), risk=st.sampled_from([0.005, 0.02, 0.05]), scale=st.floats(0, 2))
def test_no_proposal_exceeds_its_target(seed, risk, scale):
    """Whatever the evidence looks like: measured risk within the target, or nothing but certain tokens."""
    rng = np.random.default_rng(seed)
    slope, a, b = rng.uniform(0, 0.6), rng.uniform(0, scale), rng.uniform(0, scale)
    tokens = planted(
        n=3_000, questions=400, seed=seed,
        error=lambda c, K, r: np.clip(slope * (1 - c) - 0.05 * a * K + b * r, 0, 1),
        E=lambda rng, n: rng.exponential(2, n),
    )  # fmt: skip
    try:
        proposal = propose(tokens, risk)
    except UserError as refused:
        assert "use more traces" in str(refused)
        return
    values = proposal.params()
    assert proposal.measured.upper <= risk or values["theta_h"] == 1.0
    assert 0 <= values["theta_c"] <= values["theta_h"] <= 1 and values["w"] >= 0
    assert proposal.route == (values["theta_c"] < values["theta_h"])
    decoders.get("rpd", **values)


def test_too_little_evidence_is_a_sentence():
    with pytest.raises(UserError, match=r"risk of 0\.02 needs 149: use more traces"):
        propose(planted(n=100, questions=10))


def test_an_unreachable_target_admits_only_certain_tokens():
    proposal = propose(planted(error=lambda c, K, r: np.full(len(c), 0.3)))
    assert proposal.choices["theta_h"].value == 1.0 and not proposal.route
    assert "a higher --risk would help" in proposal.choices["theta_h"].why


# --- the trial ----------------------------------------------------------------------------------------------------


def outcome(label, right, forwards, **params):
    return decode.Outcome(
        label, {"theta_h": 0.9, "theta_c": 0.9, "beta": 4.0, **params}, tuple(right), tuple(forwards)
    )


def test_the_cheapest_setting_that_is_not_worse():
    good, bad = [True] * 95 + [False] * 5, [True] * 80 + [False] * 20
    arms = [outcome("a", good, [20] * 100), outcome("b", good[::-1], [15] * 100), outcome("c", bad, [5] * 100)]
    assert decode.pick(arms).label == "b"
    assert decode.pick(arms[::2]).label == "a"


def test_one_sided_mcnemar_and_paired_means():
    assert mcnemar_one_sided(0, 5) == pytest.approx(1 / 32)
    assert mcnemar_one_sided(3, 0) == 1.0
    mean, (low, high) = paired_mean([10, 12, 14, 10], [8, 10, 12, 8])
    assert mean == low == high == -2.0


@pytest.mark.parametrize(
    ("before", "after", "forwards", "said"),
    [
        (4, 0, -0.5, "Use it: as accurate, as far as this many examples tell"),  # p = 0.125: not shown to be worse
        (0, 4, 0.5, "Keep the uncalibrated settings: as accurate"),
        (9, 0, -0.5, "Do not use it"),
        (0, 9, 0.5, "Use it: more accurate"),
    ],
)
def test_the_verdict_needs_the_paired_test(before, after, forwards, said):
    right = np.ones((2, 160), dtype=bool)
    right[1, :before], right[0, 100 : 100 + after] = False, False
    sides = [
        decode.Outcome(str(i), {}, right[i].tolist(), [10 + i * forwards + n % 2 for n in range(160)]) for i in (0, 1)
    ]
    assert summary.verdict(decode.Comparison.of(*sides)).startswith(said)


def test_the_traces_of_a_finite_task_come_after_its_trial(monkeypatch):
    from types import SimpleNamespace

    from unmask.diagnostics import traces
    from unmask.diagnostics.calibrate.run import skipped

    problems = [
        SimpleNamespace(
            id=str(i), prompt=f"{i} and 7?", response=f"{i} + 70 = {i + 70} x\n#### {i + 70}", answer=str(i + 70)
        )
        for i in range(100, 126)
    ]
    task = SimpleNamespace(endless=False, examples=lambda split, limit, seed: iter(problems))
    monkeypatch.setattr("unmask.tasks.get", lambda name: task)
    asked = Request("tiny", "gsm8k", trial=20)
    assert skipped(asked) == 20 and skipped(replace(asked, traces="file.jsonl")) == 0
    gold = traces.load_traces("gsm8k", split="train", min_digits=1, skip=skipped(asked))
    assert [trace.id for trace in gold.traces] == [p.id for p in problems[20:]]


def test_trial_arms_stay_within_the_evidence():
    short = propose(planted())
    strict = rules.propose(planted(), 0.02, LAYERS, FIRST, 4.0, 0.9)
    arms = decode.trial_arms(short, strict, 4.0)
    assert [arm["beta"] for arm in arms.values()][:2] == [2.0, 4.0]
    stern = list(arms.values())[-1]
    assert stern["theta_h"] == 0.9 and stern["theta_c"] == 0.9
    for params in arms.values():
        decoders.get("rpd", **params)


# --- the page and the file ----------------------------------------------------------------------------------------


def document(tokens=None):
    tokens = planted() if tokens is None else tokens
    usual = decoders.get("rpd", theta_h=0.9, theta_c=0.6, beta=4.0, theta_s=3.5, w=15.0, first_layer=9).params()
    proposal, strict = propose(tokens), rules.propose(tokens, 0.02, LAYERS, FIRST, 4.0, 0.9)
    right, forwards = [True] * 30 + [False] * 2, [14] * 32
    trial = [decode.Outcome(label, params, tuple(right), tuple(forwards))
             for label, params in decode.trial_arms(proposal, strict, 4.0).items()]  # fmt: skip
    proposal, chosen = decode.settle(proposal, strict, trial)
    after = decode.Outcome("calibrated", proposal.params(), tuple(right), tuple(f - 1 for f in forwards))
    before = decode.Outcome("uncalibrated", {}, tuple(right), tuple(forwards))
    states = evidence.States(tokens.question, tokens.E, tokens.wrong)
    return {
        "request": {"model": "<tiny>", "task": "wordproblems", "patterns": 2}, "settings": proposal.params(),
        **summary.of_proposal(proposal, usual), **summary.of_evidence(tokens, states, proposal, 4.0),
        **summary.of_decodes(trial, chosen, decode.Comparison.of(before, after)), "account": "400 of 500 traces used",
        "about": {"hardware": {"device": "some"}, "versions": {"unmask": "0"}, "started": "now", "model": {}},
    }  # fmt: skip


def informed():
    return planted(error=lambda c, K, r: np.where((c >= 0.9) | ((c >= 0.5) & (K >= 4) & (r <= 0.2)), 0.001, 0.6))


@pytest.mark.parametrize("make", [planted, informed])
def test_the_page_is_whole_and_needs_nothing_from_outside(make):
    made = json.loads(json.dumps(document(make()), allow_nan=False))
    html = page(made)
    assert html.count("<svg") == html.count("</svg>") == 7 and "nan" not in html.lower().replace("pennant", "")
    assert "<script" not in html and "http" not in html and "&lt;tiny&gt;" in html and "<tiny>" not in html
    assert made["held_out"]["verdict"] in html


@pytest.mark.parametrize("make", [planted, informed])
def test_the_settings_are_what_a_decoder_takes(make, tmp_path):
    from unmask.cli.options import parse_options

    made = document(make())
    (tmp_path / "rpd.json").write_text(json.dumps(made["settings"]))
    options = parse_options("rpd", [f"@{tmp_path / 'rpd.json'}"])
    policy = decoders.get("rpd", **options)
    assert {name: getattr(policy, name) for name in made["settings"]} == made["settings"]
    assert policy == decoders.get("rpd", **made["settings"])


# --- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"risk": 0.0}, "--risk is a share between 0 and 1"),
        ({"risk": 2.0}, "--risk is a share between 0 and 1"),
        ({"trial": 5}, "--trial 5 is too few examples"),
        ({"held_out": 3}, "--held-out 3 is too few examples"),
    ],
)
def test_requests_that_make_no_sense(fields, said):
    with pytest.raises(UserError, match=said):
        Request("tiny", **fields)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--task", "functions"], "has digits in an equation"),
        (
            ["--task", "math500"],
            "no training split, so nothing would be held out: calibrate on wordproblems or gsm8k",
        ),
        (["--task", "wordproblem"], "did you mean wordproblems"),
        (["--model", "tony"], "tiny"),
        (["--risk", "1.5"], "--risk is a share between 0 and 1"),
        (["--trial", "3"], "--trial 3 is too few examples"),
        (["--traces", "nowhere.jsonl"], "nowhere.jsonl does not exist"),
    ],
)
def test_a_mistake_is_one_sentence(argv, said, tmp_path, capsys):
    from unmask.cli import main

    out = tmp_path / "out"
    assert main(["calibrate", *argv, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert said in err and err.startswith("error: ") and err.count("\n") == 1
    assert not out.exists()


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        calibrate(Request("tiny"), tmp_path / "file" / "out")


@pytest.mark.slow
def test_from_the_command_line_to_a_decode(tmp_path, capsys, monkeypatch):
    """The whole way on the embedded model with short canvases: what it proposes is of no interest here."""
    from unmask.cli import main
    from unmask.diagnostics.calibrate import run

    monkeypatch.setattr(run, "FEWEST", 4)
    request = Request("tiny", risk=0.5, limit=12, patterns=1, trial=4, held_out=4, canvas_length=16)
    out = tmp_path / "out"
    made = run.calibrate(request, out)
    assert made == json.loads((out / "calibration.json").read_text())
    assert (out / "report.html").read_text().count("<svg") == 7
    decodes = sum(1 for part in ("trial", "held-out") for _ in (out / part / "samples.jsonl").open())
    assert decodes == 4 * len(made["trial"]["settings"]) + 8
    monkeypatch.setattr("unmask.models.load", None)  # nothing is left to compute
    assert run.calibrate(request, out) == made
    with pytest.raises(UserError, match=r"another configuration \(request.risk 0.5, not 0.4\)"):
        run.calibrate(replace(request, risk=0.4), out)
    monkeypatch.undo()
    monkeypatch.setattr(run, "FEWEST", 4)
    asked = ["generate", "2 + 2 = ?", "--canvas-length", "8", "-o", f"@{out / 'rpd.json'}", "--json"]
    assert main(asked) == 0
    params = json.loads(capsys.readouterr().out)["params"]
    assert {name: params[name] for name in made["settings"]} == made["settings"]
