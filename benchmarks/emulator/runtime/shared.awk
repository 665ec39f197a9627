# Assembly of a translated source: a gap behind each thread-local (that is, __shared__) variable, a table of their names,
# and bulk copies through our own functions.
/^\t\.(bss|data|text)/ { in_shared = 0 }
/^\t\.section/ { in_shared = ($0 ~ /\.tbss/) || ($0 ~ /\.tdata/) }
{ gsub(/memcpy@PLT/, "kb_memcpy"); gsub(/memmove@PLT/, "kb_memcpy"); gsub(/memset@PLT/, "kb_memset") }
{ print }
in_shared && /^\t\.size\t/ { name = $2; sub(/,$/, "", name); bytes = $3 }
in_shared && /^\t\.zero\t/ && name != "" {
    print "\t.zero\t256"
    names[++count] = name; sizes[count] = bytes; name = ""
}
END {
    print "\t.section\tkb_names,\"a\",@progbits"
    print "\t.hidden\tkb_names_begin\n\t.hidden\tkb_names_end\n\t.globl\tkb_names_begin\n\t.globl\tkb_names_end"
    print "\t.balign 8\nkb_names_begin:"
    for (i = 1; i <= count; i++) print "\t.quad\t" names[i] "@dtpoff\n\t.quad\t" sizes[i] "\n\t.asciz\t\"" names[i] "\"\n\t.balign 8"
    print "kb_names_end:"
}
