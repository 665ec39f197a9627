"""Messages are objects of bounded size, whatever the other side sends."""

import socket

import pytest

from benchmarks.harness.protocol import Link, ProtocolError, make_links


@pytest.fixture
def ends():  # type: ignore[no-untyped-def]
    ours, theirs = make_links()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_message_arrives_as_it_was_sent(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    Link(theirs).send(kind="hello", numbers=[1, 2.5, None])
    assert ours.receive(1) == {"kind": "hello", "numbers": [1, 2.5, None]}


@pytest.mark.parametrize(
    "data", [b"\x80\x04garbage", b"[1, 2]", b"{", b"[" * 90_000, b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}"]
)
def test_nonsense_is_an_error_and_never_more(ends: tuple[Link, socket.socket], data: bytes) -> None:
    ours, theirs = ends
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    theirs.send(data)
    with pytest.raises(ProtocolError):
        ours.receive(1)


def test_silence_and_absence_differ(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    with pytest.raises(TimeoutError):
        ours.receive(0.01)
    theirs.close()
    with pytest.raises(ProtocolError):
        ours.receive(1)


def test_no_text_of_a_message_can_break_a_page_or_a_database(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    record = "0123456789abcdef+/=" * 5000
    Link(theirs).send(load_error="\ud800 \0 \x1b[31m é\n", exported=[{"\udfff": "\0"}], piece=record)
    expected = {"load_error": "� � �[31m é\n", "exported": [{"�": "�"}], "piece": record}
    assert ours.receive(1) == expected


def test_a_message_to_somebody_who_is_gone_is_lost_and_receiving_says_so() -> None:
    ours, theirs = make_links()
    theirs.close()
    ours.send(word="hello")
    with open("/dev/null", "rb") as file:
        ours.send_descriptors([file.fileno()], word="hello")
    with pytest.raises(ProtocolError):
        ours.receive(1.0)
    ours.close()
