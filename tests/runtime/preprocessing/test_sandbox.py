"""A chat template comes from whoever made the checkpoint: it can neither hang us, nor take our memory."""

import re
import tracemalloc

import pytest

from txexport.errors import BundleError, InputError
from txexport.runtime.preprocessing import chat, sandbox

MESSAGES = [{"role": "user", "content": "hi"}] * 4
LARGE = "refuses: it makes values of more than 8,388,608 characters"
WIDE = r"refuses: the format .* is too wide"
TIME = "refuses: it computes for more than 0.3 seconds"
NESTED = "{% for i in range(10000) %}{% for j in range(10000)FILTER %}{% endfor %}{% endfor %}"
GROWN = (
    "{% set ns = namespace(x=START) %}{% for i in range(1000) %}{% set ns.x = GROWTH %}{% endfor %}{{ ns.x }}"
)


def grown(growth: str, start: str = "'aaaaaaaa'") -> str:
    """A template that puts a value into itself again and again."""
    return GROWN.replace("START", start).replace("GROWTH", growth)


@pytest.fixture
def said(tmp_path):
    """A function from a template to what is said of it."""

    def get(template: str) -> str:
        (tmp_path / "chat_template.jinja").write_text(template)
        with pytest.raises(InputError, match=r"^the checkpoint's chat template ") as error:
            chat.prompt(tmp_path, chat.Conversation(MESSAGES))
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 400
        return str(error.value)

    return get


@pytest.mark.parametrize(
    "template",
    [
        NESTED.replace("FILTER", ""),
        NESTED.replace("FILTER", " if false"),
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}",
        "{% set x = 'a' * 8000000 %}{% for i in range(10000) %}{{ 'aaab' in x }}{% endfor %}",
        "{{ ('a' * 8000000) | groupby('x') }}",
        "{{ ('a' * 8000000) | map('upper') | list }}",
        "{{ ('a' * 8000000) | sort | length }}",
        "{{ ('a' * 8000000) | join }}",
        "{% for i in range(10000) %}{{ ('{0:9}' * 8000).format('a') }}{% endfor %}",
    ],
)
def test_time_is_bounded(template, said, monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 0.3)
    assert TIME in said(template)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ lipsum(n=10**7) }}", "refuses: it is random"),
        ("{{ ('a ' * 8000000) | wordwrap(1) }}", LARGE),
        ("{{ ('a ' * 100000) | wordwrap(1) }}", "wordwrap of 200,000 characters and items, expected at most"),
        ("{{ ('a ' * 50000) | wordwrap(1, wrapstring='x' * 1000) }}", LARGE),
        ("{{ ('<!---->' * 100000) | striptags }}", "striptags of 700,000 characters"),
        ("{{ ('a.com ' * 100000) | urlize }}", "urlize of 600,000 characters"),
        ("{{ ([1] * 10000) | pprint }}", "pprint of 330,032 characters"),
        ("{{ ('&' * 1000000) | urlencode }}", "urlencode of 1,000,000 characters"),
        ("{% set ns = namespace() %}{% set ns.s = ns %}{{ ns }}", "lists within lists are deeper than 100"),
        ("{% set ns = namespace(x='a' * 5000000) %}{{ namespace(a=ns, b=ns) }}", LARGE),
        ("{{ dict.fromkeys(range(10000), 'a' * 1000) }}", LARGE),
        ("{{ '%1000000000d' % 5 }}", WIDE),
        ("{{ '%.1000000000f' % 5 }}", WIDE),
        ("{{ '%*d' % (1000000000, 5) }}", WIDE),
        ("{{ '%(a)1000000000d' % {'a': 5} }}", WIDE),
        ("{{ '%1000000000d' | format(5) }}", WIDE),
        ("{{ '%(a(b))1000000000d' % {'a(b)': 5} }}", WIDE),
        ("{{ '%%%5.1000000000f' % 5 }}", WIDE),
        ("{{ ('{0:999}' * 1000000).format('a') }}", LARGE),
        ("{{ ('{0:{1}}' * 1000000).format('a', 999) }}", LARGE),
        ("{{ ('{a:999}' * 1000000).format_map({'a': 'a'}) }}", LARGE),
        ("{{ ('}}' * 4000000).format() }}", LARGE),
        ("{% set ns = namespace() %}{% set ns.s = ns %}{{ ('{0' ~ '.s' * 4000000 ~ '}').format(ns) }}", WIDE),
        ("{{ ('a' * 8000000).rfind('a' * 500000 + 'b' + 'a' * 500000) }}", "rfind looks for 1,000,001"),
        ("{{ ('a' * 8000000).rsplit('a' * 500000 + 'b' + 'a' * 500000) }}", "rsplit looks for 1,000,001"),
        ("{{ (('<!---->' * 1000000) | safe).striptags() }}", "access to attribute 'striptags'"),
        ("{{ '%s%s' % ('a' * 5000000, 'b' * 5000000) }}", LARGE),
        ("{{ '{:>1000000000}'.format(5) }}", WIDE),
        ("{{ '{:>{}}'.format(5, 1000000000) }}", WIDE),
        ("{{ '{0[}]:>1000000000}'.format({'}': 5}) }}", WIDE),
        ("{{ '{a:>1000000000}'.format_map({'a': 5}) }}", WIDE),
        ("{{ ('{:>1000000000}' | attr('format'))(5) }}", WIDE),
        ("{{ 'a' * 10**10 }}", LARGE),
        ("{{ 10**10 * 'a' }}", LARGE),
        ("{{ [1] * 10**10 }}", LARGE),
        ("{{ [messages] * 10**7 }}", LARGE),
        ("{{ 10**10**8 }}", "number of more than 64 bits"),
        ("{{ 2**64**64 }}", "number of more than 64 bits"),
        ("{{ 3**1000000 }}", "a power of 1000000"),
        ("{{ 9**20 * 9**20 }}", "number of more than 64 bits"),
        ("{{ ('f' * 8000000) | int(0, 16) }}", "number of more than 64 bits"),
        ("{{ range(10**9) }}", "range makes 1000000000 numbers, expected at most 10000"),
        ("{{ range(0, 9 * 2**62, 2**61 - 1) | unique | list }}", "number of more than 64 bits"),
        (grown("ns.x + ns.x"), LARGE),
        (grown("ns.x ~ ns.x"), LARGE),
        (grown("ns.x * 2"), LARGE),
        (grown("[ns.x, ns.x]"), LARGE),
        (grown("dict(a=ns.x, b=ns.x)"), LARGE),
        (grown("'%s%s' % (ns.x, ns.x)"), LARGE),
        (grown("'{0}{0}'.format(ns.x)"), LARGE),
        (grown("[ns.x, ns.x] | join"), LARGE),
        (grown("ns.x.replace('a', 'aa')"), LARGE),
        (grown("ns.x | replace(new='aa', old='a')"), LARGE),
        (grown("(ns.x,)"), "lists within lists are deeper than 100"),
        ("{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}"
         "{% endset %}{% endfor %}", LARGE),
        ("{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}{{ f(f(f('a' * 3000000))) }}", LARGE),
        ("{{ 'x' | center(10**9) }}", LARGE),
        ("{{ 'x'.center(10**9) }}{{ 'x'.zfill(10**9) }}", LARGE),
        ("{{ '\t'.expandtabs(10**9) }}", "refuses: access to attribute 'expandtabs'"),
        ("{{ (5).to_bytes(10**9, 'big') }}", "refuses: access to attribute 'to_bytes'"),
        ("{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}", LARGE),
        ("{{ ('b' * 1000000).join(('a' * 1000) | list) }}", LARGE),
        ("{{ ('a' * 1000) | join('b' * 1000000) }}", LARGE),
        ("{% set ns = namespace(x='a' * 5000000) %}{{ [ns, ns] | join(attribute='x') }}", LARGE),
        ("{{ ('\n' * 1000000) | indent(first=true, width=1000000) }}", LARGE),
        ("{{ ('a ' * 4000000).split() }}", LARGE),
        ("{{ messages | tojson(indent=10**9) }}", "tojson indents by 1000000000"),
        ("{{ messages | tojson(indent='x' * 5000000) }}", LARGE),
        ("{{ messages | tojson(separators=('x' * 5000000, 'y')) }}", LARGE),
        ("{{ [1] | batch(10**9, 'x') | list }}", "batch by more than 1000"),
        ("{{ [1] | slice(10**9) | list }}", "slice by more than 1000"),
        ("{{ 1.5 | round(10**9, 'ceil') }}", "round by more than 1000"),
        ("{{ ([[1]] * 9) | sum(start=[]) }}", "sum must begin with a number"),
        ("".join(f"{{% set x{i} = 'a' * 8000000 %}}" for i in range(99)), "or 268,435,456 in all"),
        ("".join(f"{{% set x{i} = messages[0].content[:] * 4000000 %}}" for i in range(99)), "in all"),
        ("x" * 300_000, "has 300,000 characters, expected at most 262,144"),
    ],
)  # fmt: skip
def test_memory_is_bounded_before_it_is_taken(template, expected, said, monkeypatch):
    monkeypatch.setattr(sandbox, "SECONDS", 60)
    tracemalloc.start()
    try:
        message = said(template)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert re.search(expected, message), message
    assert peak < 2**29


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ 1 / 0 }}", "fails: ZeroDivisionError: division by zero"),
        ("{{ '{}'.format() }}", "fails: IndexError"),
        ("{{ 'a' + 1 }}", "fails: TypeError"),
        ("{{ none | length }}", "fails: TypeError: object of type 'NoneType' has no len()"),
        ("{{ cycler().next() }}", "fails: RuntimeError"),
        ("{{ strftime_now('%c' * 1000) }}", "fails: InputError: a format of 2,000 characters"),
        ("{% include 'x' %}", "fails: TypeError: no loader"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "fails: RecursionError"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "fails: RecursionError"),
        ("{% for x in [1] %}" * 30 + "{% endfor %}" * 30, "fails: SyntaxError"),
        ("{{ " + "9" * 5000 + " }}", "fails: ValueError"),
        ("{{ [1, 2] | random }}", "refuses: it is random, so that prompts could not be reproduced"),
        ("{{ x | other }}", "refuses: No filter named 'other'"),
        ("{{ namespace(_x=1) }}", "refuses: a namespace takes no '_x', which begins with an underscore"),
        ("{% set ns = namespace() %}{% set ns._x = 1 %}", "refuses: a namespace takes no '_x'"),
        ("{{ dict.update(messages[0], role='x') }}", "refuses: "),
        ("{{ messages[0].update({'role': 'x'}) }}", "refuses: access to attribute 'update'"),
        ("{% generation %}{% for m in messages %}{% continue %}", "refuses: "),
        ("{{ messages[9].content.x }}", "refuses: list object has no element 9"),
        ("{{ raise_exception('') }}", "refuses: TemplateError"),
        ("{{ raise_exception('a' * 1000000) }}", "refuses: aaa"),
        ("{% autoescape true %}{% endautoescape %}", "refuses: autoescape is not supported"),
    ],
)
def test_every_exception_is_one_line(template, expected, said):
    assert expected in said(template)


@pytest.mark.parametrize("messages", [None, 5, "hi", [5], ["hi"], {"role": "user"}])
def test_messages_of_another_type_are_one_line(messages, tmp_path):
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    with pytest.raises(InputError, match=r"messages are .*, expected a list of"):
        chat.prompt(tmp_path, chat.Conversation(messages))


def test_a_template_that_is_no_text_is_one_line(tmp_path):
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BundleError, match=r"chat_template\.jinja cannot be read as text"):
        chat.prompt(tmp_path, chat.Conversation(MESSAGES))


def test_what_templates_do_gives_what_it_gave(tmp_path):
    template = (
        "{% set ns = namespace(x=[], n=0) %}{% for m in messages if m.role == 'user' %}"
        "{% set ns.n = ns.n + 1 %}{% set ns.x = ns.x + [m.content ~ loop.index ~ loop.length ~ loop.last] %}"
        "{% endfor %}"
        "{{ ns.x | join(', ') }}|{{ ', '.join(ns.x) }}|{{ ns.x | map('upper') | list | length }}|"
        "{{ '%s-%03d' % ('a', 7) }}|"
        "{{ '(%s)2024' % 'a' }}|{{ '%d%%2024' % 7 }}|"
        "{{ '{:>4}|{{}}'.format(ns.n) }}|{{ messages[::-1][0].content[1:] }}|"
        "{{ {'a': (1, 'x')} | tojson(indent=1) }}|{{ 2**10 // 3 % 100 - 1 }}|{{ 'ab' * 2 }}|"
        "{{ 'a\nb' | indent(2) }}|{% for x in [1, [2, [3]]] recursive %}{{ x if x is number else loop(x) }}"
        "{% endfor %}|{{ 'a.b'.split('.')[-1] }}|{{ 'a-b' | replace('-', '+') }}|{{ [3, 1] | sort | string }}"
    )
    (tmp_path / "chat_template.jinja").write_text(template)
    assert chat.prompt(tmp_path, chat.Conversation(MESSAGES)) == (
        "hi14False, hi24False, hi34False, hi44True|hi14False, hi24False, hi34False, hi44True|4|"
        "a-007|(a)2024|7%2024|"
        '   4|{}|i|{\n "a": [\n  1,\n  "x"\n ]\n}|40|abab|a\n  b|123|b|a+b|[1, 3]'
    )


def test_a_long_conversation_is_no_attack(tmp_path):
    messages = [{"role": "user", "content": "word " * 100}] * 4000
    template = "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] | trim + '\n' }}{% endfor %}"
    (tmp_path / "chat_template.jinja").write_text(template)
    assert len(chat.prompt(tmp_path, chat.Conversation(messages))) == 4000 * (6 + 499 + 1)
