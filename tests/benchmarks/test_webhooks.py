"""Posting to addresses of strangers: what is refused, and what reaches an address that is allowed."""

import hashlib
import hmac
import socket
import ssl
import subprocess
import threading
from contextlib import closing

import pytest

from benchmarks.notifications import webhooks

SECRET = "a secret of the account"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.1.2.3", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:1::"),
        *("::127.0.0.1", "::ffff:0:127.0.0.1", "fec0::1", "2001:470::5efe:7f00:1", "2001:470::200:5efe:7f00:1"),
        *("192.0.0.192", "192.88.99.1", "3fff::1", "4000::1", "5f00::1", "fe00::1", "2001:20::1"),
    ],
)
def test_addresses_inside_a_network_are_not_public(address):
    assert not webhooks.is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "192.0.1.1", "2606:4700:4700::1111", "2a00:1450::5eff:8.8.8.8"])
def test_other_addresses_are(address):
    assert webhooks.is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org/", "ftp://example.org/", "https:///path", "example.org", "https://"),
        *("https://name@example.org/", "https://name:word@example.org/", "https://example.org:22/"),
        *("https://example.org:99999/", "https://127.0.0.1/", "https://[::1]/", "https://[::1/", "https://a b/"),
        *("https://exämple.org/", "https://example.org/\r\nX: y", "https://example.org/" + "x" * 500),
    ],
)
def test_an_address_is_refused_by_its_text(url):
    with pytest.raises(webhooks.NotAllowed):
        webhooks.checked_url(url)


def test_a_name_that_stands_for_a_private_address_too_is_refused(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", _resolving("8.8.8.8", "10.0.0.1"))
    with pytest.raises(webhooks.NotAllowed, match=r"hook\.example"):
        webhooks.post("https://hook.example/", b"{}", SECRET)


@pytest.mark.parametrize("written", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "localhost"])
def test_other_ways_to_write_this_machine_are_resolved_and_refused(written):
    with pytest.raises((webhooks.NotAllowed, webhooks.NotDelivered)):
        webhooks.post(f"https://{written}/", b"{}", SECRET)


def _resolving(*addresses):
    def getaddrinfo(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return getaddrinfo


class Receiver:
    """A server with a certificate for `hook.example` that keeps what it is sent and answers `answer`."""

    def __init__(self, folder, answer):
        self.asked, self.answer = [], answer
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, args=(context,), daemon=True)
        self.thread.start()

    def _serve(self, context):
        try:
            with closing(context.wrap_socket(self.socket.accept()[0], server_side=True)) as client:
                request = b""
                while not request.endswith(b"}"):
                    request += client.recv(65_536)
                self.asked.append(request)
                client.sendall(self.answer)
                client.recv(1)
        except OSError:
            return  # it was cut off

    def close(self):
        self.socket.close()
        self.thread.join(5)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=hook.example", "-addext", "subjectAltName=DNS:hook.example"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(["openssl", *made, *named, *files], check=True, capture_output=True)
    return folder


@pytest.fixture
def receiver(certificate, monkeypatch):
    """Starts one; `hook.example` resolves to a public address, whose connections end at the receiver."""
    started, reached = [], []
    monkeypatch.setattr(socket, "getaddrinfo", _resolving("8.8.8.8"))
    monkeypatch.setattr(webhooks, "tls_context", lambda: ssl.create_default_context(cafile=certificate / "cert.pem"))

    def to_receiver(address, timeout):
        reached.append(address)
        plain = socket.socket()
        plain.settimeout(timeout)
        plain.connect(("127.0.0.1", started[-1].port))
        return plain

    monkeypatch.setattr(socket, "create_connection", to_receiver)

    def start(answer):
        started.append(Receiver(certificate, answer))
        return started[-1], reached

    yield start
    for one in started:
        one.close()


def test_a_message_goes_signed_to_the_address_that_was_checked(receiver):
    server, reached = receiver(b"HTTP/1.1 204 No Content\r\n\r\n")
    webhooks.post("https://hook.example/told?to=me", b'{"text": "hello"}', SECRET)
    head, body = server.asked[0].split(b"\r\n\r\n", 1)
    lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    signed = f"{lines['X-Kbench-Time']}.".encode() + body
    assert reached == [("8.8.8.8", 443)]
    assert head.startswith(b"POST /told?to=me HTTP/1.1\r\nHost: hook.example\r\n")
    assert lines["X-Kbench-Signature"] == "sha256=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1/\r\n\r\n", "answered 302"),
        (b"HTTP/1.1 500 Oops\r\n\r\n", "answered 500"),
        (b"not HTTP at all\r\n", "could not be reached"),
    ],
)
def test_everything_but_success_is_a_failure(receiver, answer, why):
    server, _ = receiver(answer)
    with pytest.raises(webhooks.NotDelivered, match=why):
        webhooks.post("https://hook.example/", b"{}", SECRET)
    assert len(server.asked) == 1


def test_an_address_that_never_answers_is_cut_off(receiver, monkeypatch):
    receiver(b"")
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.3)
    with pytest.raises(webhooks.NotDelivered, match=r"took too long|timed out"):
        webhooks.post("https://hook.example/", b"{}", SECRET)


def test_an_address_that_is_slow_to_shake_hands_is_cut_off_then(receiver, monkeypatch):
    """Otherwise the time would be over with nothing to cut, and an answer could drip in for ever."""
    receiver(b"HTTP/1.1 204 No Content\r\n\r\n")
    asked = []
    shake = ssl.SSLSocket.do_handshake

    def slowly(self, *given):
        if not self.server_side:
            connection = asked[0]
            connection.cut()
        shake(self, *given)

    class Watched(webhooks._Pinned):
        def __init__(self, *given):
            super().__init__(*given)
            asked.append(self)

    monkeypatch.setattr(webhooks, "_Pinned", Watched)
    monkeypatch.setattr(ssl.SSLSocket, "do_handshake", slowly)
    with pytest.raises(webhooks.NotDelivered, match="took too long"):
        webhooks.post("https://hook.example/", b"{}", SECRET)


def test_the_time_ends_before_there_is_a_connection(receiver, monkeypatch):
    server, _ = receiver(b"HTTP/1.1 204 No Content\r\n\r\n")

    class Late(webhooks._Pinned):
        def __init__(self, *given):
            super().__init__(*given)
            self.cut()

    monkeypatch.setattr(webhooks, "_Pinned", Late)
    with pytest.raises(webhooks.NotDelivered, match="took too long"):
        webhooks.post("https://hook.example/", b"{}", SECRET)
    assert server.asked == []


def test_a_name_that_is_never_resolved_is_given_up(monkeypatch):
    """Its owner runs the server that is asked for it, and others wait for the same courier."""
    over = threading.Event()

    def unanswered(*_, **__):
        over.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", unanswered)
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.1)
    with pytest.raises(webhooks.NotDelivered, match="cannot be resolved"):
        webhooks.post("https://hook.example/", b"{}", SECRET)
    over.set()


def test_a_certificate_of_another_name_is_refused(receiver, monkeypatch):
    server, _ = receiver(b"HTTP/1.1 204 No Content\r\n\r\n")
    with pytest.raises(webhooks.NotDelivered, match="certificate"):
        webhooks.post("https://other.example/", b"{}", SECRET)
    assert server.asked == []
