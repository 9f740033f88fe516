/*
 * Rewrites messages in transit: a client's query for the upstream, an upstream's answer for the
 * client. Pure, bounded; any thread. EDNS is hop by hop (RFC 6891 6.1.1): upstream gets our OPT
 * with the client's DO bit, the client gets an OPT if it sent one.
 */
#ifndef EDGEWAY_DNS_FORWARD_REWRITE_H
#define EDGEWAY_DNS_FORWARD_REWRITE_H

#include "dns/answer/answer.h"

enum { DNS_FORWARD_MAX = DNS_HEADER + DNS_NAME_MAX + 4 + DNS_OPT_BYTES };

/* The client's question (for `target`, unless NULL) with its RD, CD, AD and DO bits. Returns the
 * length. */
size_t dns_forward_build(
	uint8_t out[DNS_FORWARD_MAX], const struct dns_query *q, const struct dns_target *target);

/* 0x20: each letter of the question's name takes the case that its bit of `case_bits` gives (0:
 * lower). */
enum { DNS_COINS = 32 };
void dns_forward_mix(uint8_t *query, size_t len, const uint8_t case_bits[DNS_COINS]);
/* Whether the answer repeats the question of our query `sent` octet for octet. */
bool dns_forward_same(const uint8_t *answer, size_t len, const uint8_t *sent, size_t sent_len);

/* Whether all records lie within the message and all owners are valid names, so that it can be
 * passed on. */
bool dns_forward_sound(const uint8_t *answer, size_t len);

/* Turns an upstream's answer into the client's: id, question bytes, RA, OPT as asked, cut to
 * out->size (512..65535) with TC. False when it does not answer this question. */
bool dns_forward_answer(
	struct dns_out *out, const struct dns_query *q, const uint8_t *answer, size_t len);

/* The same when the upstream was asked for a CNAME's target: writes the CNAME (ttl_s), the aliases
 * that lead on from the target, and the addresses of the last of them; records of other owners are
 * left out. Also false for a loop of aliases and for more than DNS_CHAIN_MAX. */
enum { DNS_CHAIN_MAX = 16 };
bool dns_chase_answer(struct dns_out *out, const struct dns_query *q,
	const struct dns_target *target, uint32_t ttl_s, const uint8_t *answer, size_t len);

#endif
