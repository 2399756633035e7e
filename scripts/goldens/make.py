"""Renders random conversations by the models' own Jinja templates and writes test/codecs/goldens/FAMILY.json.gz.

    python3 make.py TEMPLATES... [--only qwen3,llama3.1] [--turns 1000] [--against-transformers]

TEMPLATES are folders that hold the template files named in families.py.
"""

import argparse
import gzip
import hashlib
import io
import json
import platform
from collections import Counter
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import jinja2
from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

from conversations import Conversation, turns
from families import FAMILIES, Family
from messages import messages_of, tools_of

SEED = 'goldens-1'
TODAY = datetime(2026, 7, 26)
MOST_CASES = 2000
OUT = Path(__file__).resolve().parents[2] / 'test' / 'codecs' / 'goldens'
# Cases with one of these flags do not count among the turns wanted: codecs may rightly differ on them.
DEBATABLE = set('lookalike args preamble parallel python undeclared broken afterthought hollow shuffled'.split())


def tojson(x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message: str) -> None:
    raise TemplateError(message)


def environment(mutable: bool) -> SandboxedEnvironment:
    """As transformers sets it up, with the date held still."""
    kind = SandboxedEnvironment if mutable else ImmutableSandboxedEnvironment
    env = kind(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters['tojson'] = tojson
    env.globals['raise_exception'] = raise_exception
    env.globals['strftime_now'] = TODAY.strftime
    return env


def source_of(family: Family, folders: list[Path]) -> str:
    for folder in folders:
        path = folder / family.file
        if path.is_file():
            text = path.read_text(encoding='utf-8')
            return json.loads(text)['chat_template'] if path.suffix == '.json' else text
    raise SystemExit(f'{family.file} is in none of the folders; name one that has it.')


def edited(family: Family, source: str) -> str:
    for old, new in family.edits:
        if source.count(old) != 1:
            raise SystemExit(f'{family.file} has {old!r} not exactly once; look at its edits in families.py.')
        source = source.replace(old, new)
    return source


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def flags_of(family: Family, conversation: Conversation) -> dict[str, Any]:
    """What a test should know of a case: things that the family's template does in a way of its own."""
    flags = dict(conversation.flags)
    items = conversation.items
    kinds = [item['type'] if item['type'] != 'message' else item['role'] for item in items]
    if family.beside_calls != 'kept' and 'afterthought' not in flags:
        if any(pair == ('assistant', 'function_call') for pair in zip(kinds, kinds[1:])):
            flags['preamble'] = True
    if family.names == 'last':
        # The only such template that names an output's function: it names that of the last call.
        for one, two in zip(items, items[1:]):
            if one['type'] == two['type'] == 'function_call' and one['name'] != two['name']:
                flags['parallel'] = True
    if family.literals == 'python':
        for item in items:
            if item['type'] == 'function_call':
                if any(value is None or isinstance(value, bool) for value in json.loads(item['arguments']).values()):
                    flags['python'] = True
    if not family.declares and conversation.settings['tools']:
        flags['undeclared'] = True
    if not family.calls_work and 'function_call' in kinds:
        flags['broken'] = True
    return flags


class Maker:
    def __init__(self, name: str, family: Family, folders: list[Path], wanted: int, oracle: Any):
        self.name, self.family, self.wanted = name, family, wanted
        self.oracle = None if family.mutable else oracle
        original = source_of(family, folders)
        self.sha256 = sha256(original)
        self.source = edited(family, original)
        self.template = environment(family.mutable).from_string(self.source)
        self.cases: list[dict[str, Any]] = []
        self.dropped: Counter[str] = Counter()
        self.turns = self.plain = 0
        self.appends: dict[str, list[int]] = {'output': [0, 0], 'user': [0, 0]}

    def render(self, settings: dict[str, Any], items: list[dict[str, Any]]) -> str:
        family = self.family
        given = {**family.variables, **family.effort_variables(settings['effort'])}
        messages, tools = messages_of(family, settings, items), tools_of(settings)
        text = self.template.render(messages=messages, tools=tools, documents=None, add_generation_prompt=True, **given)
        if self.oracle and self.oracle(messages, tools, self.source, given) != text:
            raise SystemExit(f'{self.name}: transformers renders a conversation otherwise.')
        return text

    def case(self, n: int) -> None:
        conversation = Conversation(Random(f'{SEED}:{self.name}:{n}'), self.family.talk)
        settings, items = conversation.settings, conversation.items
        points = turns(items)
        try:
            texts = [self.render(settings, items[:upto]) for upto in points]
        except (TemplateError, TypeError, AttributeError, RecursionError) as error:
            self.dropped[f'{type(error).__name__}: {str(error)[:90]}'] += 1
            return
        flags = flags_of(self.family, conversation)
        self.turns += len(points)
        if not DEBATABLE & set(flags):
            self.plain += len(points)
            self.measure(points, items, texts)
        made = [{'upto': upto, 'sha256': sha256(text)} for upto, text in zip(points, texts)]
        self.cases.append({'flags': flags, 'settings': settings, 'items': items, 'turns': made, 'text': texts[-1]})

    def measure(self, points: list[int], items: list[dict[str, Any]], texts: list[str]) -> None:
        """Whether a prompt begins with the one before it; what came between ends in outputs only, or not."""
        for n in range(1, len(points)):
            new = items[points[n - 1] : points[n]]
            spoken = any(item['type'] == 'message' and item['role'] != 'assistant' for item in new)
            count = self.appends['user' if spoken else 'output']
            count[1] += 1
            count[0] += texts[n].startswith(texts[n - 1])

    def make(self) -> None:
        n = 0
        while self.plain < self.wanted and n < MOST_CASES:
            self.case(n)
            n += 1

    def write(self) -> int:
        family = self.family
        whole = {
            'family': self.name,
            'template': {'file': family.file, 'sha256': self.sha256, 'edits': family.edits},
            'python': platform.python_version(),
            'jinja': jinja2.__version__,
            'seed': SEED,
            'today': TODAY.strftime('%Y-%m-%d'),
            'variables': family.variables,
            'mapping': {
                'effort': family.effort,
                'arguments': family.arguments,
                'laterSystem': family.later_system,
                'reasoning': family.reasoning,
                'calls': family.calls,
                'users': family.users,
                'ids': family.ids,
                'besideCalls': family.beside_calls,
                'names': family.names,
                'literals': family.literals,
                'declares': family.declares,
                'callsWork': family.calls_work,
            },
            'cases': self.cases,
        }
        buffer = io.BytesIO()
        with gzip.GzipFile(filename='', mode='wb', fileobj=buffer, compresslevel=9, mtime=0) as out:
            out.write(json.dumps(whole, ensure_ascii=False, separators=(',', ':')).encode())
        OUT.mkdir(parents=True, exist_ok=True)
        return (OUT / f'{self.name}.json.gz').write_bytes(buffer.getvalue())

    def report(self, size: int) -> None:
        flags = Counter(flag for case in self.cases for flag in case['flags'])
        share = ', '.join(f'{kind} {a}/{b}' for kind, (a, b) in self.appends.items())
        print(
            f'{self.name}: {len(self.cases)} cases, {self.turns} turns ({self.plain} undisputed), {size // 1000} kB; '
            f'appends: {share}; flags: {dict(flags)}; dropped: {dict(self.dropped)}',
            flush=True,
        )


def transformers_oracle() -> Any:
    """transformers' own function, to hold this file's environment against."""
    from transformers.utils import chat_template_utils as utils

    class Still(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return TODAY

    utils.datetime = Still  # type: ignore[attr-defined]
    # It copies reasoning under every name templates know; here each template is given the one it reads.
    utils._alias_reasoning_fields = lambda chat: chat

    def render(messages: Any, tools: Any, source: str, given: dict[str, Any]) -> str:
        return utils.render_jinja_template(
            [messages], tools=tools, chat_template=source, add_generation_prompt=True, **given
        )[0][0]

    return render


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument('folders', nargs='+', type=Path)
    parser.add_argument('--only', type=lambda text: text.split(','), default=list(FAMILIES))
    parser.add_argument('--turns', type=int, default=1000)
    parser.add_argument('--against-transformers', action='store_true')
    options = parser.parse_args()
    oracle = transformers_oracle() if options.against_transformers else None
    for name in options.only:
        maker = Maker(name, FAMILIES[name], options.folders, options.turns, oracle)
        maker.make()
        maker.report(maker.write())


if __name__ == '__main__':
    main()
