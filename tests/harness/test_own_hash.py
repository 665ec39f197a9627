"""Texts that compute their own hash while they are compiled, and with it the name of a folder made of it.

Not covered: texts that know nothing of themselves (`test_one_program.py`).
"""

from decimal import Decimal, getcontext

import pytest

from benchmarks.harness import Paths, Source, SupervisorError, default_rules
from benchmarks.harness.compilers import builds
from benchmarks.harness.compilers.builds import Build

pytestmark = pytest.mark.sandbox


def built(text: str, paths: Paths, language: str = "cpp") -> Build:
    try:
        return builds.build(Source(text, language), default_rules(), paths)
    except SupervisorError as error:
        pytest.skip(str(error))


# A text cannot hold its own hash, but it can compute it: it is a quine whose constant expression is SHA-256 of itself,
# and macros of the assembler write the number in hexadecimal into a path.
BODY = r"""
constexpr char head[] = "static constexpr char body[] = R\"Q(", tail[] = ")" "Q\";";
struct Hash { unsigned h[8]; };
constexpr unsigned char byte_at(unsigned long i) {
  constexpr char name[] = "@NAME@";
  constexpr unsigned long n = sizeof name - 1, h = sizeof head - 1, b = sizeof body - 1, t = sizeof tail - 1;
  if (i < n) return name[i];
  i -= n; if (i < h) return head[i];
  i -= h; if (i < b) return body[i];
  i -= b; if (i < t) return tail[i];
  i -= t; if (i < b) return body[i];
  i -= b; if (i < @ZEROS@) return 0;
  return i == @ZEROS@ ? 128 : 0;
}
constexpr unsigned long size() {
  constexpr char name[] = "@NAME@";
  return sizeof name - 1 + sizeof head - 1 + 2 * (sizeof body - 1) + sizeof tail - 1 + @ZEROS@;
}
constexpr unsigned K[64] = {@K@};
constexpr unsigned rot(unsigned x, int n) { return x >> n | x << (32 - n); }
constexpr Hash sha() {
  Hash r{{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
  unsigned long bits = size() * 8, blocks = (size() + 9 + 63) / 64;
  for (unsigned long k = 0; k < blocks; k++) {
    unsigned w[64] = {};
    for (int i = 0; i < 64; i++) {
      unsigned long p = k * 64 + i;
      unsigned char c = p >= blocks * 64 - 8 ? bits >> 8 * (blocks * 64 - 1 - p) : byte_at(p);
      w[i / 4] |= (unsigned)c << (24 - 8 * (i % 4));
    }
    for (int i = 16; i < 64; i++)
      w[i] = w[i - 16] + w[i - 7] + (rot(w[i - 15], 7) ^ rot(w[i - 15], 18) ^ w[i - 15] >> 3)
             + (rot(w[i - 2], 17) ^ rot(w[i - 2], 19) ^ w[i - 2] >> 10);
    unsigned a = r.h[0], b = r.h[1], c = r.h[2], d = r.h[3], e = r.h[4], f = r.h[5], g = r.h[6], h = r.h[7];
    for (int i = 0; i < 64; i++) {
      unsigned x = h + (rot(e, 6) ^ rot(e, 11) ^ rot(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
      unsigned y = (rot(a, 2) ^ rot(a, 13) ^ rot(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g; g = f; f = e; e = d + x; d = c; c = b; b = a; a = x + y;
    }
    unsigned s[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) r.h[i] += s[i];
  }
  return r;
}
constexpr Hash own = sha();
constexpr int W0 = own.h[0], W1 = own.h[1], W2 = own.h[2], W3 = own.h[3];
asm(R"A(
.macro go acc
.if I==32
@READ@
.else
.if I==0
.set W,W0
.elseif I==8
.set W,W1
.elseif I==16
.set W,W2
.elseif I==24
.set W,W3
.endif
.set N,(W>>(28-4*(I&7)))&15
.irpc k,0123456789abcdef
.if N==0x\k
.set I,I+1
.set N,99
go \acc\k
.endif
.endr
.endif
.endm
)A");
extern "C" __attribute__((visibility("default"))) int answer() {
  asm volatile(".set W0,%c0\n.set W1,%c1\n.set W2,%c2\n.set W3,%c3\n.set I,0\n.pushsection .rodata\ngo\n.popsection"
               :: "i"(W0), "i"(W1), "i"(W2), "i"(W3));
  return 42;
}
"""


def quine(reads: str, name: str, zeros: int) -> str:
    """A text with the assembler's lines `reads`, where \\acc is half of the hash of `name`, the text and `zeros`."""
    primes = [n for n in range(2, 312) if all(n % m for m in range(2, n))][:64]
    constants = ",".join(f"{int((_cube(n) % 1) * 2**32):#x}" for n in primes)
    body = BODY.replace("@NAME@", name).replace("@ZEROS@", str(zeros)).replace("@K@", constants)
    body = body.replace("@READ@", reads)
    return f'static constexpr char body[] = R"Q({body})Q";{body}'


def _cube(number: int) -> Decimal:
    getcontext().prec = 40
    return Decimal(number) ** (Decimal(1) / Decimal(3))


def test_no_text_computes_where_the_precompiled_header_lies(paths: Paths, sandbox: None) -> None:
    text = quine('.incbin "/kbench/precompiled/\\acc/kbench.h.gch",0,64', "kbench_submission.cpp\\0", 0)
    made = built(text, paths)
    assert made.binary is None
    assert "file not found" in made.log
