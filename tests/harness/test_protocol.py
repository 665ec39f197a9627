"""Messages are objects of bounded size, whatever the other side sends."""

import contextlib
import socket
import threading

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


def test_a_message_longer_than_a_packet_arrives_whole(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    said = {"arguments": [f"a tensor of state {number}" for number in range(30_000)]}
    sender = threading.Thread(target=lambda: Link(theirs).send(**said))
    sender.start()
    assert ours.receive(10) == said
    sender.join()


def test_a_message_without_end_is_an_error(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends

    def talk() -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs.send(b"+" + b" " * ((128 << 10) - 1))

    sender = threading.Thread(target=talk)
    sender.start()
    with pytest.raises(ProtocolError, match="too long"):
        ours.receive(10)
    ours.close()
    sender.join()


@pytest.mark.parametrize(
    "data", [b"+" * 100, b"\x80\x04garbage", b"[1, 2]", b"{", b"[" * 90_000, b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}"]
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
