"""The `unmask` model type of lm-evaluation-harness: any checkpoint, any decoder, generation tasks.

lm_eval --model unmask --model_args pretrained=tiny,decoder=rpd --tasks gsm8k --apply_chat_template
python -m unmask.lm_eval ...      the same, where the environment switches entry points off
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from unmask import harness
from unmask.errors import UserError
from unmask.evaluate.specs import DecoderSpec
from unmask.evaluate.worker import Decoding, Worker
from unmask.tasks.base import Example, Score


class Generate:
    """The worker's task: lm-eval scores, we only decode."""

    name, version, metric, summary = "lm-eval", 1, "", "requests of lm-evaluation-harness"

    def examples(self, split: str = "test", limit: int | None = None, seed: int = 0) -> Iterator[Example]:
        raise NotImplementedError

    def score(self, example: Example, text: str) -> Score:
        raise NotImplementedError


class UnmaskLM(LM):
    """`pretrained` names the model, `decoder` the decoder; further model_args are the decoder's own options."""

    def __init__(
        self,
        pretrained: str = "tiny",
        decoder: str = "rpd",
        batch_size: int | str | None = 1,
        device: str | None = None,
        dtype: str | None = None,
        revision: str | None = None,
        canvas_length: int | None = None,
        seed: int = 0,
        early_stop: bool = False,
        max_batch_size: int | None = None,
        **options: Any,
    ) -> None:
        import torch

        from unmask.models import load

        super().__init__()
        if not str(batch_size).isdigit():
            raise UserError(f"unmask takes --batch_size as a number, not {batch_size!r}")
        if device and device.startswith("cuda") and not torch.cuda.is_available():
            device = None  # lm-eval's own default is cuda:0, also where there is none
        self.model = load(pretrained, revision=revision, device=device, dtype=dtype)
        self.spec = DecoderSpec(decoder, decoder, options)
        self.spec.build(self.model.spec, canvas_length or self.model.spec.canvas_length)  # a bad option, now
        # raw: lm-eval renders the chat template itself when asked to.
        self.decoding = Decoding(int(batch_size or 1), canvas_length, seed, raw=True, early_stop=early_stop)
        self._device = self.model.net.device

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """One canvas per request. `until` cuts the text; `max_gen_toks` does not apply, the canvas has one length."""
        from tqdm import tqdm

        worker = Worker(self.model, Generate(), self.decoding)
        examples = [Example(str(i), request.args[0], "") for i, request in enumerate(requests)]
        # Longest first: neighbours in a batch are of like length.
        order = sorted(range(len(examples)), key=lambda i: -len(examples[i].prompt))
        answers = [""] * len(examples)
        with tqdm(total=len(examples), disable=disable_tqdm, desc=f"unmask {self.spec.label}") as bar:
            for finished in worker.decode(self.spec, ((i, examples[i]) for i in order)):
                for item in finished:
                    if item.generation is None:
                        bar.write(f"request {item.index} has no answer: {item.error}")
                        continue
                    arguments = requests[item.index].args[1]
                    answers[item.index] = cut(item.generation.text, arguments.get("until"))
                    self.cache_hook.add_partial("generate_until", requests[item.index].args, answers[item.index])
                bar.update(len(finished))
        return answers

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> Any:
        raise NotImplementedError(
            "a masked diffusion model decodes in any order and has no left-to-right likelihood: use tasks that "
            "generate (output_type: generate_until)"
        )

    loglikelihood_rolling = loglikelihood

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        if not add_generation_prompt:
            raise NotImplementedError("unmask cannot continue an answer that was begun: leave gen_prefix out")
        return self.model.tokenizer.render(chat_history)

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return self.model.tokenizer.chat_template if chat_template else ""

    @property
    def tokenizer_name(self) -> str:
        return self.model.name.replace("/", "__")

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval writes beside the results: enough to repeat them."""
        from unmask import __version__
        from unmask.loop import plain

        canvas = self.decoding.canvas_length or self.model.spec.canvas_length
        decoder = self.spec.build(self.model.spec, canvas)
        return {
            "unmask_version": __version__,
            "unmask_model": self.model.name,
            "unmask_decoder": self.spec.resolved_name(self.model.spec),
            "unmask_params": plain(decoder.params()),
            "unmask_canvas_length": canvas,
        }


def cut(text: str, until: str | Sequence[str] | None) -> str:
    """`text` up to the first of the stop strings."""
    stops = [until] if isinstance(until, str) else list(until or ())
    ends = [text.find(stop) for stop in stops if stop and stop in text]
    return text[: min(ends)] if ends else text


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    harness.register()
    cli_evaluate()
