"""The chat formats: which template each has, what it is given, and what conversations of it look like."""

from dataclasses import dataclass, field
from typing import Any

from conversations import Talk

THINKING = (None, None, 'none', 'medium')


@dataclass(frozen=True)
class Family:
    # A Jinja file, or a tokenizer_config.json that holds one.
    file: str
    # Variables given on every render.
    variables: dict[str, Any] = field(default_factory=dict)
    # `reasoning.effort` becomes a variable: 'enable_thinking' is false for 'none' and unset otherwise; 'thinking' is true
    # for every effort but 'none', false without one; 'reasoning_effort' is the effort, unset without one.
    effort: str | None = None
    # The others are explained in messages.py.
    arguments: str = 'text'
    later_system: str = 'system'
    reasoning: str = 'none'
    calls: str = 'together'
    users: str = 'apart'
    ids: str = 'given'
    no_text: str | None = ''
    # What the template makes of text beside calls: kept, or not (the case is flagged `preamble`).
    beside_calls: str = 'kept'
    # Whose name stands at an output where several calls went before: its own (or none stands there), or that of the last
    # call (the case is flagged `parallel` where they differ).
    names: str = 'own'
    # How it prints true, false and null among arguments; 'python' cases are flagged.
    literals: str = 'json'
    # False: the template shows no tools (cases that have some are flagged `undeclared`).
    declares: bool = True
    # False: the template's calls are broken (cases that have some are flagged `broken`).
    calls_work: bool = True
    # True: the template appends to lists, which the sandbox of transformers forbids; rendered in Jinja's mutable sandbox.
    mutable: bool = False
    # Pieces of the template that are replaced before anything is rendered: what the codec does otherwise on purpose, for
    # every conversation. Each occurs exactly once.
    edits: tuple[tuple[str, str], ...] = ()
    talk: Talk = Talk()

    def effort_variables(self, effort: str | None) -> dict[str, Any]:
        if self.effort == 'enable_thinking':
            return {'enable_thinking': False} if effort == 'none' else {}
        if self.effort == 'thinking':
            return {'thinking': effort not in (None, 'none')}
        if self.effort == 'reasoning_effort':
            return {} if effort is None else {'reasoning_effort': effort}
        return {}


LOSSY = 0.06
LLAMA = {'bos_token': '<|begin_of_text|>', 'date_string': '26 Jul 2026'}
# Tools and system text stay with the first user message, so that prefixes hold.
TOOLS_FIRST = ('message == user_messages[-1]', 'loop.first')
SYSTEM_FIRST = ('loop.last and system_message', 'loop.first and system_message')
MISTRAL = {'bos_token': '<s>', 'eos_token': '</s>'}
DEEPSEEK = {'bos_token': '<｜begin▁of▁sentence｜>', 'eos_token': '<｜end▁of▁sentence｜>'}

FAMILIES: dict[str, Family] = {
    'qwen2.5': Family('Qwen-Qwen2.5-7B-Instruct.jinja', arguments='parsed'),
    'qwen3': Family(
        'Qwen-Qwen3-0.6B.jinja', effort='enable_thinking', reasoning='reasoning_content', talk=Talk(efforts=THINKING)
    ),
    'qwen3-coder': Family('Qwen3-Coder.jinja', arguments='parsed', literals='python', talk=Talk(literals=LOSSY)),
    'qwen3.5': Family(
        'Qwen3.5-4B.jinja',
        effort='enable_thinking',
        arguments='parsed',
        later_system='user',
        reasoning='reasoning_content',
        literals='python',
        talk=Talk(efforts=THINKING, literals=LOSSY),
    ),
    'hermes-3': Family(
        'NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja',
        {'bos_token': '<|begin_of_text|>'},
        beside_calls='lost',
        talk=Talk(tools='always', preamble=LOSSY),
    ),
    'gpt-oss': Family(
        'openai-gpt-oss-120b.jinja',
        effort='reasoning_effort',
        arguments='parsed',
        later_system='user',
        reasoning='thinking',
        calls='split',
        beside_calls='moved',
        names='last',
        talk=Talk(efforts=(None, 'low', 'medium', 'high'), preamble=LOSSY, parallel=0.1),
    ),
    **{
        name: Family(
            file, LLAMA, arguments='parsed', calls='split', beside_calls='lost', talk=Talk(preamble=LOSSY)
        )
        for name, file in {
            'llama3.1': 'meta-llama-Llama-3.1-8B-Instruct.jinja',
            'llama3.2': 'meta-llama-Llama-3.2-3B-Instruct.jinja',
            'llama3.3': 'meta-llama-Llama-3.3-70B-Instruct.jinja',
        }.items()
    },
    'mistral-nemo': Family(
        'mistralai-Mistral-Nemo-Instruct-2407.jinja',
        MISTRAL,
        arguments='parsed',
        later_system='user',
        users='joined',
        beside_calls='lost',
        edits=(TOOLS_FIRST, SYSTEM_FIRST),
        talk=Talk(alternates=True, nine=True, preamble=LOSSY),
    ),
    'mistral-small-3.2': Family(
        'Mistral-Small-3.2-24B-Instruct-2506.jinja',
        MISTRAL,
        arguments='parsed',
        later_system='user',
        users='joined',
        beside_calls='lost',
        edits=(TOOLS_FIRST,),
        talk=Talk(alternates=True, nine=True, preamble=LOSSY),
    ),
    'ministral-3': Family(
        'mistralai-Ministral-3-14B-Reasoning-2512.jinja',
        MISTRAL,
        later_system='user',
        reasoning='blocks',
        users='joined',
        talk=Talk(alternates=True),
    ),
    'devstral': Family('unsloth-mistral-Devstral-Small-2507.jinja', MISTRAL),
    'deepseek-v3': Family(
        'tokenizer_config.json',
        DEEPSEEK,
        later_system='user',
        no_text=None,
        beside_calls='lost',
        declares=False,
        calls_work=False,
        talk=Talk(tools='few', calling=0.05, preamble=LOSSY),
    ),
    'deepseek-v3.1': Family(
        'deepseek-ai-DeepSeek-V3.1.jinja',
        DEEPSEEK,
        effort='thinking',
        arguments='parsed',
        later_system='user',
        declares=False,
        talk=Talk(efforts=THINKING, tools='few'),
    ),
    'deepseek-v3.2': Family(
        'deepseek-ai-DeepSeek-V3.2.jinja',
        DEEPSEEK,
        effort='thinking',
        arguments='parsed',
        later_system='user',
        reasoning='reasoning_content',
        talk=Talk(efforts=THINKING),
    ),
    'glm-4.6': Family(
        'GLM-4.6.jinja',
        effort='enable_thinking',
        arguments='parsed',
        reasoning='reasoning_content',
        talk=Talk(efforts=THINKING),
    ),
    'glm-4.7-flash': Family(
        'GLM-4.7-Flash.jinja',
        effort='enable_thinking',
        arguments='parsed',
        reasoning='reasoning_content',
        talk=Talk(efforts=THINKING),
    ),
    'kimi-k2': Family('moonshotai-Kimi-K2.jinja', arguments='parsed', ids='functions'),
    'kimi-k2-instruct': Family('Kimi-K2-Instruct.jinja', mutable=True),
    'kimi-k2-thinking': Family(
        'Kimi-K2-Thinking.jinja',
        reasoning='reasoning_content',
        mutable=True,
        # The model's own template ends this loop at the last answer; the copy has lost that, and ends at the first.
        edits=(
            (
                '{%- set ns.last_non_tool_call_assistant_msg = idx -%}',
                '{%- set ns.last_non_tool_call_assistant_msg = idx -%}{%- break -%}',
            ),
        ),
    ),
}
