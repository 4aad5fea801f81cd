"""The proposer that asks a language model, with the search proposer as its safety net.

The model's proposal is filled up and bounded (`llm_plan.py`). Where it is of no use, or there is none, the search
proposer plans the trial; where that happened three times in a row, it plans the rest of the run. Both are said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from memory.errors import InputError, ModelError, ServerError, TrialError
from memory.records import Plan, Research
from tools.llm.broker import PATIENCE_SECONDS, Broker
from tools.llm.endpoint import Endpoint, Message
from tools.llm.prompt import form_text, rendered
from tools.llm.typed import ask_for
from tools.proposers import search
from tools.proposers.bounds import RefusedError
from tools.proposers.brief import Brief, Stop
from tools.proposers.llm_brief import Facts, Part, brief_text
from tools.proposers.llm_form import DATA_STEPS, ProposedPlan, StructuredPlan
from tools.proposers.llm_plan import plan_of
from tools.proposers.llm_research import Researcher, cited, research_part
from tools.proposers.starting_recipe import FEWEST_VISITS

PURPOSE = "planner"
GIVEN_UP = 3
"""So many trials in a row that the model did not plan end its turn for the rest of the run."""
PROSE_CHARS_A_TOKEN = 3.5
"""Of the prompt around the brief, which is plain English."""
PATIENCE_SHARE, LEAST_PATIENCE = 0.1, 60.0
"""Share of the time for trials that waiting for an answer may take, and the seconds that any model needs."""

SMALL = 1_000_000_000
"""Weights under which a model that plans for itself is not asked for instructions and code: it would fill the little
room for its answer with them."""


@dataclass(frozen=True)
class LanguagePlanner:
    """Proposes by asking models: the first, then the second where the first one's proposal cannot be used."""

    broker: Broker
    endpoints: tuple[Endpoint, Endpoint]
    template: str
    """The prompt, with places for `form` and `brief`."""
    facts: Facts
    net: Callable[[Brief], Plan | Stop]
    """The search proposer, or what a test puts in its place."""
    note: Callable[[str], None]
    """Is told what a person should know, a line each."""
    researcher: Researcher | None = None
    """Looks things up before the first plan; None where the person did not ask for it."""
    form: type[ProposedPlan | StructuredPlan] = ProposedPlan
    """What the models fill in: with numbers, or without, where Optuna tunes them."""

    def __call__(self, brief: Brief) -> Plan | Stop:
        """The next plan, or why there is none.

        Raises InputError for a key or model that the server refuses before anything was planned: the person is still
        there. Later, such a refusal is answered like any other failure, by the search proposer.
        """
        net = self.net(brief)
        self.broker.meter.trial = brief.number
        if self._nothing_to_ask(brief, net):
            return net
        try:
            return self._told(self._asked(brief, net))
        except ModelError as error:
            if error.fault in ("key", "model") and not brief.trials:
                raise InputError(error.message, error.way_out) from error
            why = str(error)
        except (TrialError, ServerError, RefusedError) as error:
            why = str(error)
        self.note(f"{self.endpoints[0].model} did not plan trial {brief.number}, the search proposer does: {why}")
        return net

    def _nothing_to_ask(self, brief: Brief, net: Plan | Stop) -> bool:
        """Whether the search proposer's word holds without asking: the run is over, a person's wish is to be carried as
        it was understood, or the model has failed too often."""
        if any(wish.for_plan for wish in brief.wishes):
            return True
        if search.finished(brief) is not None or brief.rows_available == 0:
            return True
        if isinstance(net, Stop) and brief.row_visits(brief.training_room) < FEWEST_VISITS:
            return True
        last = brief.trials[-GIVEN_UP:]
        given_up = len(last) == GIVEN_UP and all(
            trial.plan.proposer == "search" and not trial.plan.wishes for trial in last
        )
        if given_up:
            self.note(f"{self.endpoints[0].model} planned none of the last {GIVEN_UP} trials; search plans the rest")
        return given_up

    def _told(self, plan: Plan | Stop) -> Plan | Stop:
        """The plan; what it cites is said to the person, who alone can bring it here."""
        if isinstance(plan, Plan) and plan.cites:
            says = f"trial {plan.number} rests on {'; '.join(plan.cites)}"
            self.note(f"{says} (nothing of it is downloaded; rows of your own come with --dataset)")
        return plan

    def _asked(self, brief: Brief, net: Plan | Stop) -> Plan | Stop:
        """What the model proposes; where the brief is too long for it, once more with half of it. Raises ModelError,
        TrialError, ServerError and RefusedError."""
        most = self.endpoints[0].prompt_tokens
        research = self.researcher(brief, self.facts, patience(brief.spendable)) if self.researcher else Research()
        more = (Part(self._money(brief)), research_part(research))
        try:
            return cited(self._twice(brief, net, most, more), research)
        except ModelError as error:
            if error.fault != "context":
                raise
        self.note(f"the brief was too long for {self.endpoints[0].model} and was cut by half, oldest details first")
        return cited(self._twice(brief, net, most // 2, more), research)

    def _twice(self, brief: Brief, net: Plan | Stop, most_tokens: int, more: Sequence[Part]) -> Plan | Stop:
        """A proposal, and a second one where the first cannot be used."""
        form = form_text(self.form, not_asked(self.endpoints[0], brief))
        left = most_tokens - int(len(self.template + form) / PROSE_CHARS_A_TOKEN)
        prompt = rendered(self.template, form=form, brief=brief_text(brief, self.facts, net, left, more))
        first, second = self.endpoints
        try:
            return plan_of(self._form(first, prompt, brief), brief, net)
        except (RefusedError, TrialError) as error:
            why = f"An earlier answer could not be used: {error}"
        self.note(f"{first.model}, trial {brief.number}: {why}")
        return plan_of(self._form(second, f"{prompt}\n\n{why}", brief), brief, net)

    def _money(self, brief: Brief) -> str:
        """What is left for language models, and what a trial's planning costs; empty where nobody set a cap."""
        meter = self.broker.meter
        if meter.budget_usd is None:
            return ""
        spent, trials = meter.spent_before(brief.number)
        each = f"; planning a trial took ${spent / trials:.4f} so far" if trials else ""
        return f"Money for language models: ${meter.budget_usd - spent:.4f} of ${meter.budget_usd:g} are left{each}."

    def _form(self, endpoint: Endpoint, prompt: str, brief: Brief) -> ProposedPlan | StructuredPlan:
        asked = [Message(role="user", content=prompt)]
        left_out = not_asked(endpoint, brief)
        return ask_for(self.form, self.broker, endpoint, asked, PURPOSE, patience(brief.spendable), without=left_out)


def not_asked(endpoint: Endpoint, brief: Brief) -> Collection[str]:
    """Fields that are left out of a model's form: instructions and code, where a very small one plans for itself."""
    return DATA_STEPS if endpoint.socket is not None and brief.model.parameters < SMALL else ()


def patience(seconds_left: float) -> float:
    """Seconds for which an answer is waited for, of those that are left."""
    return min(PATIENCE_SECONDS, max(LEAST_PATIENCE, PATIENCE_SHARE * seconds_left))
