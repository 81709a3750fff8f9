"""Mutations of a chat template: snippets that loop, allocate memory, access internals, or are invalid."""

from random import Random

from fuzzing import raw_bytes

SNIPPETS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% set x = namespace(s='x') %}{% for a in range(40) %}{% set x.s = x.s + x.s %}{% endfor %}{{ x.s }}",
    "{{ lipsum(n=10**7) }}",
    "{{ lipsum(n=2, min=10**8, max=10**8+1) }}",
    "{{ '%0999999999d' % 1 }}",
    "{{ '%*d' % (999999999, 1) }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ '{:>99999999}'.format(1) }}",
    "{{ 'x' * 10**10 }}",
    "{{ ([0] * 10**9) | length }}",
    "{{ 'x' | center(10**9) }}",
    "{{ ('x' * 10**6) | wordwrap(1) }}",
    "{{ 'x'.ljust(10**9) }}",
    "{{ 'x\n' * 9 | indent(10**8) }}",
    "{{ messages | tojson(indent=10**8) }}",
    "{{ 10 ** 10 ** 8 }}",
    "{{ 2 ** 99999 }}",
    "{{ 1 / 0 }}",
    "{{ 1 % 0 }}",
    "{{ 1e400 | int }}",
    "{{ 'x' + 1 }}",
    "{{ messages[99].content.x }}",
    "{{ messages['x'] }}",
    "{{ messages.__class__.__mro__ }}",
    "{{ cycler.__init__.__globals__.os.system('true') }}",
    "{{ ''.join(messages) }}",
    "{{ messages | sort }}",
    "{{ messages | map('x') | list }}",
    "{{ [1] | first(2, 3) }}",
    "{{ 5 | join }}",
    "{{ messages | batch(0) | list }}",
    "{{ range(10**9) | list }}",
    "{{ nothing.x }}",
    "{{ nothing() }}",
    "{{ messages() }}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% extends 'x' %}",
    "{% break %}",
    "{% endfor %}",
    "{% for",
    "{{ raise_exception('one\ntwo') }}",
    "{{ raise_exception('') }}",
    "{{ raise_exception(5) }}",
    "{{ raise_exception() }}",
    "{{ strftime_now('%9999999d') }}",
    "{{ strftime_now(5) }}",
    "{{ strftime_now('\\ud800') }}",
    "{{ '\\ud800' }}",
    "{{ 'the ' * 10**5 }}",
    "{{ messages | tojson(indent='x') }}",
    "{{ messages | tojson(default=5) }}",
    "{{ messages.append(messages) }}{{ messages | tojson }}",
    "{% set x = [] %}{% for a in range(99999) %}{{ x.append(range(99999) | list) }}{% endfor %}",
    "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "{{ " + "-" * 3000 + "1 }}",
    "{% if 1 %}" * 500,
)


def change(random: Random, data: bytes) -> tuple[bytes, str]:
    """The template with a snippet inserted, alone or between its parts; one in four with changed bytes."""
    if random.random() < 0.25:
        return raw_bytes.change(random, data)
    snippet, text = random.choice(SNIPPETS), data.decode()
    starts = [place for place in range(len(text)) if text[place : place + 2] in ("{{", "{%")]
    place = random.choice(starts)
    text = random.choice((snippet, text[:place] + snippet + text[place:]))
    return text.encode(), f"{snippet[:80]!r} at {place}"
