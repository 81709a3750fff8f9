"""Subtitles and JSON of a transcript."""

import json

from txexport.runtime.tasks.transcript import Segment, Transcript, Word, to_json, to_srt, to_vtt

TRANSCRIPT = Transcript(
    "A & B\n\n<c>",
    (Segment(0.0, 1.5, " A & B\n\n<c>"), Segment(3661.0004, 3662.9996, "end")),
    (Word(0.1, 0.2, "A"), Word(0.9, 1.1, "B")),
    "en",
)


def test_srt_has_numbers_clocks_and_no_blank_line_inside_a_subtitle():
    expected = "1\n00:00:00,000 --> 00:00:01,500\nA & B <c>\n\n2\n01:01:01,000 --> 01:01:03,000\nend\n"
    assert to_srt(TRANSCRIPT) == expected


def test_srt_by_word_has_a_subtitle_for_each_word():
    expected = "1\n00:00:00,100 --> 00:00:00,200\nA\n\n2\n00:00:00,900 --> 00:00:01,100\nB\n"
    assert to_srt(TRANSCRIPT, "word") == expected


def test_vtt_has_its_header_and_escapes_markup():
    expected = (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nA &amp; B &lt;c&gt;\n\n01:01:01.000 --> 01:01:03.000\nend\n"
    )
    assert to_vtt(TRANSCRIPT) == expected


def test_unknown_times_come_from_the_neighbours():
    segments = (Segment(None, None, "a"), Segment(2.0, None, "b"), Segment(None, None, ""))
    assert to_srt(Transcript("", segments)).split("\n")[1::4] == [
        "00:00:00,000 --> 00:00:02,000",
        "00:00:02,000 --> 00:00:05,000",
    ]


def test_a_subtitle_ends_after_its_start():
    """As WebVTT needs, also where the two times are one millisecond when rounded."""
    segments = (Segment(1.0, 1.0, "a"), Segment(2.0025, 2.0015, "b"), Segment(2.0034, 2.0036, "c"))
    assert to_vtt(Transcript("", segments)).split("\n")[2::3] == [
        "00:00:01.000 --> 00:00:01.001",
        "00:00:02.002 --> 00:00:02.003",
        "00:00:02.003 --> 00:00:02.004",
    ]
    assert "00:00:01,000 --> 00:00:01,001" in to_srt(Transcript("", segments))


class CountedWord:
    """A word without times; `reads` counts how often a start is read."""

    reads = 0
    text, end = "a", None

    @property
    def start(self):
        CountedWord.reads += 1


def test_the_time_of_subtitles_is_linear_in_the_words():
    """Looking ahead from each word to the next known start would take hours for a long recording."""
    transcript = Transcript("", (), tuple(CountedWord() for _ in range(1000)))
    assert to_srt(transcript, "word").count("-->") == 1000
    assert CountedWord.reads < 5000


def test_a_transcript_without_segments_is_an_empty_file():
    assert to_srt(Transcript("")) == ""
    assert to_vtt(Transcript("")) == "WEBVTT\n"


def test_json_is_one_line_with_every_field():
    text = to_json(TRANSCRIPT)
    assert "\n" not in text
    assert json.loads(text) == {
        "text": "A & B\n\n<c>",
        "segments": [
            {"start": 0.0, "end": 1.5, "text": " A & B\n\n<c>"},
            {"start": 3661.0004, "end": 3662.9996, "text": "end"},
        ],
        "words": [{"start": 0.1, "end": 0.2, "text": "A"}, {"start": 0.9, "end": 1.1, "text": "B"}],
        "language": "en",
    }
