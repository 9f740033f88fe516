/*
 * DNS messages (RFC 1035, 6891): a bounded parser of queries into a small struct, and a writer of
 * answers into the caller's buffer. Pure: no allocation, no I/O, no clock. Any thread.
 *
 * The question is echoed byte for byte (0x20); owner names are compressed to offsets in the
 * question.
 *
 *	struct dns_query q;
 *	if (dns_query_parse(&q, bytes, n) == DNS_PARSE_OK) {
 *		dns_reply_start(&w, out, size, &q, DNS_NOERROR, true);
 *		dns_reply_a(&w, DNS_OWNER, 30, address);
 *		len = dns_reply_finish(&w);
 *	}
 *
 * Names are kept in wire form (length octet, label, ..., 0), folded to lower case.
 */
#ifndef EDGEWAY_DNS_ANSWER_MESSAGE_H
#define EDGEWAY_DNS_ANSWER_MESSAGE_H

#include "base/core/util.h"

enum dns_type {
	DNS_A = 1,
	DNS_NS = 2,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_PTR = 12,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_SRV = 33,
	DNS_OPT = 41,
	DNS_TKEY = 249, /* first of the meta types */
	DNS_IXFR = 251,
	DNS_AXFR = 252,
	DNS_ANY = 255,
};

enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
	DNS_BADVERS = 16,
};

enum {
	DNS_CLASS_IN = 1,
	DNS_FLAG_QR = 0x8000,
	DNS_FLAG_AA = 0x0400,
	DNS_FLAG_TC = 0x0200,
	DNS_FLAG_RD = 0x0100,
	DNS_FLAG_RA = 0x0080,
	DNS_FLAG_AD = 0x0020,
	DNS_FLAG_CD = 0x0010,
	DNS_EDNS_DO = 0x8000,

	DNS_HEADER = 12,
	DNS_OWNER = 12, /* offset of the question's name: the usual owner */
	DNS_NAME_MAX = 255, /* octets with the root */
	DNS_LABELS_MAX = 127,
	DNS_OPT_BYTES = 11, /* an OPT record without options */
	DNS_OPTION_COOKIE = 10,
	DNS_COOKIE_CLIENT = 8, /* octets of the client cookie (RFC 7873 4) */
	DNS_COOKIE_BYTES = 24, /* client cookie plus ours (RFC 9018 4) */
	DNS_UDP_PLAIN = 512, /* largest answer to a client without EDNS */
	DNS_UDP_MAX = 1232, /* the largest UDP message we send or ask for */
	DNS_MESSAGE_MAX = 65535,
	DNS_TTL_MAX_S = 86400,
};

struct dns_query {
	const uint8_t *bytes; /* borrowed: the whole message */
	size_t len;
	uint16_t id, flags; /* flags: the second 16 bits as received */
	uint16_t type, class;
	uint16_t question_end; /* offset behind the question; 12 when there is none to copy */
	uint8_t rcode; /* DNS_PARSE_REFUSE: the rcode to answer (DNS_BADVERS is written with OPT) */
	uint8_t n_labels; /* without the root */
	uint8_t name_len;
	uint8_t name[DNS_NAME_MAX]; /* lower case */
	uint8_t label[DNS_LABELS_MAX]; /* offset in `name` of each label's length octet */
	bool edns, edns_do;
	uint8_t cookie_len; /* 0: none, 8: the client's, 24: signed; copied into the answer */
	uint8_t cookie[DNS_COOKIE_BYTES];
	uint16_t udp_size; /* what the client accepts by UDP, clamped to 512..1232 */
};

enum dns_parse {
	DNS_PARSE_OK,
	DNS_PARSE_REFUSE, /* answer with q->rcode */
	DNS_PARSE_DROP, /* never answer: too short, or itself a response */
};

enum dns_parse dns_query_parse(struct dns_query *q, const uint8_t *bytes, size_t len);

/* Where a whole message is written: room for `size` bytes, the most that the client accepts; `len`
 * of them are the message. */
struct dns_out {
	uint8_t *bytes;
	size_t size, len;
};

/* --- names ---------------------------------------------------------------------------------- */

/* Converts text ("cluster.local", final dot optional, no escapes) to wire form in lower case.
 * Returns the length with the root, or 0 when the text is not a valid name. */
size_t dns_name_from_text(uint8_t to[DNS_NAME_MAX], const char *text);
/* Expands a name of a message, following pointers strictly backwards. Returns its wire length and
 * the offset behind it in *end, or 0. The case is kept. */
size_t dns_name_expand(
	uint8_t to[DNS_NAME_MAX], const uint8_t *m, size_t len, size_t at, size_t *end);
/* Offset behind a name; pointers are not followed. 0 when the name is cut short. */
size_t dns_name_skip(const uint8_t *m, size_t len, size_t at);
/* Compares two names in wire form, ignoring the case of letters. */
bool dns_name_equal(const uint8_t *a, const uint8_t *b, size_t len);

/* A resource record, by its offsets in the message. */
struct dns_record {
	size_t start, data, end; /* offsets: owner, RDATA, behind */
	uint16_t type, class, data_len;
	uint32_t ttl_s;
};
/* How a TTL received from a peer is used: 0 if the top bit is set (RFC 2181 8), otherwise at most
 * one day. */
static inline uint32_t
dns_ttl_s(uint32_t ttl_s)
{
	return ttl_s & 0x80000000u ? 0 : MIN(ttl_s, (uint32_t)DNS_TTL_MAX_S);
}
/* Reads the record at `at`; false when it is cut short. */
bool dns_record_read(struct dns_record *rr, const uint8_t *m, size_t len, size_t at);

/* --- answers -------------------------------------------------------------------------------- */

struct dns_writer {
	uint8_t *out;
	size_t size, len; /* size: what the client accepts, less what is reserved for OPT */
	uint16_t counts[3]; /* answer, authority, additional */
	uint8_t section;
	uint8_t rcode;
	bool truncated;
	const struct dns_query *query; /* borrowed until dns_reply_finish */
};

/* `size` is the room in `out` and the client's limit: dns_reply_limit() for UDP, 65535 for TCP; at
 * least 512. */
void dns_reply_start(struct dns_writer *w, uint8_t *out, size_t size, const struct dns_query *q,
	enum dns_rcode rcode, bool authoritative);
size_t dns_reply_limit(const struct dns_query *q);
enum { DNS_SECTION_ANSWER, DNS_SECTION_AUTHORITY, DNS_SECTION_ADDITIONAL };
/* Sections can only advance. */
void dns_reply_section(struct dns_writer *w, unsigned section);
/* Adds a record whose owner name is at offset `owner` of the message. A record that does not fit
 * sets TC, and nothing follows it; in the additional section it is left out without TC. */
void dns_reply_record(struct dns_writer *w, uint16_t owner, uint16_t type, uint32_t ttl_s,
	const void *data, size_t len);
/* The same with an uncompressed, well-formed owner in wire form. */
void dns_reply_named(struct dns_writer *w, const uint8_t *owner, uint16_t type, uint32_t ttl_s,
	const void *data, size_t len);
void dns_reply_a(struct dns_writer *w, uint16_t owner, uint32_t ttl_s, uint32_t address);
/* Writes the counts and, if the client sent an OPT, our OPT. Returns the message's length. */
size_t dns_reply_finish(struct dns_writer *w);
/* A complete answer that holds only the rcode. */
size_t dns_reply_error(uint8_t *out, size_t size, const struct dns_query *q, enum dns_rcode rcode);

/* An OPT record without options, as in all our messages. Returns DNS_OPT_BYTES. */
size_t dns_put_opt(uint8_t *p, unsigned rcode, bool edns_do);

/* The OPT record of an answer to `q`, with its cookie if that is signed; 0 when q had no OPT. */
size_t dns_put_reply_opt(uint8_t *p, unsigned rcode, const struct dns_query *q);
size_t dns_reply_opt_bytes(const struct dns_query *q);

static inline uint16_t
dns_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline void
dns_put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void
dns_put32(uint8_t *p, uint32_t v)
{
	dns_put16(p, v >> 16);
	dns_put16(p + 2, v & 0xffff);
}

#endif
