"""Chat templates: some modelled on published families, and one-liners for other features of the language."""

# ruff: noqa: E501
from helpers.project import ROOT

# By family: each uses the statements, tests, filters and methods that the family's template uses.
FAMILIES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests/data/chat_templates").glob("*.jinja"))
}
# Further features of the language, one line each.
FEATURES = {
    "tojson": "{{ messages | tojson }}{{ messages | tojson(indent=2) }}{{ messages | tojson(true) }}"
    "{{ messages | tojson(ensure_ascii=true, separators=(',', ':'), sort_keys=true) }}{{ tools | tojson(none, 1) }}",
    "written": "{{ messages }}|{{ tools }}|{{ documents }}|{{ add_generation_prompt }}|{{ messages[0] }}",
    "keys": "{% for m in messages %}{{ m.keys() | list }}{{ m | length }}{{ 'content' in m }}{{ m.content is defined }}"
    "{{ m.content is none }}{{ m.get('content') }}{{ m.get('tool_calls', 'x') }}{{ m['name'] }};{% endfor %}",
    "namespaces": "{% set n = namespace(a=1, b=messages[0].role) %}{% set n.c = [n.a] %}{{ n }}{{ n.d is defined }}",
    "dictionaries": "{% set d = dict(messages[0], x=1) %}{{ d | dictsort }}{{ dict.fromkeys(['a'], 2) }}{{ dict(a=1).a }}",
    "whitespace": "  {% if true %}\n  a\n  {%+ if true %}b{% endif %}\n\n {{- ' c ' -}} \n{% endif +%}\nd{# no #}\n {# e #}\n\nf\n",
    "raw": "{% raw %}{{ messages }}{% endraw %}{{ '{{' }}",
    "blocks": "{% filter upper %}a{{ messages[0].role }}{% endfilter %}{% set x %}b {{ messages | length }}{% endset %}{{ x }}"
    "{% macro f(a, b='z') %}{{ a }}{{ b }}{{ caller() if caller }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}"
    "{{ f(1, 2, 3, c=4) }}{% call f(5) %}!{% endcall %}{% with y = 1 %}{{ y }}{% endwith %}{{ y is defined }}",
    "generation": "{% set a = 1 %}{% generation %}{% set a = 2 %}x{{ a }}{% for m in messages %}{% generation %}{{ m.role }}"
    "{% endgeneration %}{% endfor %}{% endgeneration %}{{ a }}",
    "generation-break": "{% for m in messages %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    "loops": "{% for m in messages recursive %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.length }}"
    "{{ loop.cycle('a', 'b') }}{{ loop.changed(m.role) }}{{ loop.depth }}{{ loop.nextitem.role }}{% else %}none{% endfor %}",
    "joiner": "{% set j = joiner(', ') %}{% for m in messages %}{{ j() }}{{ m.role }}{% endfor %}{% set c = cycler(1, 2) %}"
    "{{ c.next() }}{{ c.next() }}{{ c.current }}",
    "filters": "{{ messages | map(attribute='role') | unique | sort | join('-') }}{{ messages | first }}{{ messages | last }}"
    "{{ messages | batch(2) | list }}{{ messages | slice(2) | list }}{{ 'a b' | title | center(9) | wordcount }}"
    "{{ 3.7 | int }}{{ '3' | float }}{{ 2.5 | round }}{{ -3 | abs }}{{ 'x<' | e }}{{ ('x<' | e) + '<' }}{{ 'a%s' | format(1) }}"
    "{{ [1, [2]] | sum(start=0) if false else '' }}{{ 'abc' | reverse }}{{ [3, 1] | max }}{{ 10000 | filesizeformat }}",
    "more-filters": "{{ messages | pprint }}{{ 'a b c' | wordwrap(3) }}{{ 'a&b c' | urlencode }}{{ '<b>x</b>' | striptags }}"
    "{{ {'a': 1, 'b': none} | xmlattr }}{{ 'see a.com' | urlize }}{{ 'x<' | safe | forceescape }}{{ messages | string }}",
    "methods": "{% for m in messages %}{{ m.role.upper().center(12, '*').partition('*') }}{{ '%s=%d' % (m.role, loop.index) }}"
    "{{ '{:>5}{x}'.format(loop.index, x=m.role) }}{{ m.role.replace('s', 'z').find('e') }}{{ m.role.isalpha() }}{% endfor %}",
    "reasoning": "{% for m in messages %}{{ m.thinking }}|{{ m.reasoning_content }}|{{ m.reasoning }}{% endfor %}",
    "content-parts": "{% for m in messages %}{% for p in m.content %}{{ p.text if p is mapping else p }}|{% endfor %}{% endfor %}",
    "nothing": "",
    "text-alone": "Hello.\n",
    "undefined": "{{ messages[9] }}{{ nothing }}",
    "undefined-attribute": "{{ nothing.more }}",
    "undefined-call": "{{ nothing() }}",
    "concatenation": "{% for m in messages %}{{ 'a' + m.content }}{% endfor %}",
    "joined": "{% for m in messages %}{{ 'a' ~ m.content ~ m.tool_calls ~ 1 ~ none ~ true }}{% endfor %}",
    "raises": "{{ raise_exception('no: ' ~ messages | length) }}",
    "no-filter": "{{ messages | nothing }}",
    "no-test": "{{ messages is nothing }}",
    "syntax": "{% for m in messages %}",
    "underscore": "{{ messages.__class__ }}|{{ messages[0].__class__.__mro__ }}",
    "underscore-call": "{{ messages.__class__() }}",
    "underscore-namespace": "{% set n = namespace() %}{% set n._a = 1 %}{{ n._a }}",
    "changes": "{{ messages.append(1) }}",
    "changes-update": "{{ messages[0].update(a=1) }}",
    "changes-type": "{{ dict.update(messages[0], a=1) }}",
    "arithmetic": "{{ 7 // 2 }}{{ 7 % 3 }}{{ 2 ** 5 }}{{ 7 / 2 }}{{ 1 == 1.0 }}{{ 'a' < 'b' }}{{ 1 < 2 < 3 }}{{ not none }}{{ -messages | length }}",
    "tests": "{% for m in messages %}{{ m is mapping }}{{ m.content is string }}{{ m.content is sequence }}{{ loop.index is odd }}"
    "{{ loop.index is divisibleby 2 }}{{ m.role is in ['user'] }}{{ m.role is eq 'user' }}{{ none is none }}{{ 1 is boolean }}{% endfor %}",
    "tokens": "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|{{ image_token }}|{{ add_bos_token }}"
    "|{{ bos_token_id }}|{{ additional_special_tokens }}|{{ sep_token is defined }}",
    "slices": "{{ messages[1:] | length }}{{ messages[-1].role }}{{ messages[::-1][0].role }}{{ messages[0].role[1:3] }}{{ 'abc'[::-1] }}",
}  # fmt: skip
