#include "tests/unit/dns/answer/answer_bed.h"

#include <string.h>

int
answer_bed_setup(void **state)
{
	struct answer_bed *f = xcalloc(1, sizeof *f);

	buf_init(&f->text, BUF_UNLIMITED);
	f->snapshot = kit_snapshot();
	assert_int_equal(dns_zone_init(&f->zone, "Cluster.local", 30), 0);
	f->zone.address = 0xac110001;
	f->zone.subnet = 0x09fb0000;
	f->zone.mask = 0xffff0000;
	*state = f;
	return 0;
}

int
answer_bed_teardown(void **state)
{
	struct answer_bed *f = *state;

	buf_fini(&f->text);
	snapshot_unref(&f->snapshot);
	free(f);
	return 0;
}

const char *
answer_bed_ask(struct answer_bed *f, const uint8_t *m, size_t len, uint8_t *out, size_t *n)
{
	struct dns_out to = {.bytes = out};
	enum dns_verdict verdict;
	struct dns_target target;
	struct dns_query q;

	switch (dns_query_parse(&q, m, len)) {
	case DNS_PARSE_DROP:
		return "drop";
	case DNS_PARSE_REFUSE:
		*n = dns_reply_error(out, dns_reply_limit(&q), &q, (enum dns_rcode)q.rcode);
		return kit_describe(&f->text, out, *n);
	case DNS_PARSE_OK:
		break;
	}
	to.size = dns_reply_limit(&q);
	verdict = dns_answer(&f->zone, f->snapshot, &q, &to, &target);
	*n = to.len;
	switch (verdict) {
	case DNS_FORWARD:
		return FORWARD;
	case DNS_ASK_POD:
		buf_consume(&f->text, buf_len(&f->text));
		buf_printf(&f->text, "ask %s%s %s", target.pod.name ? "name" : "pod ",
			target.pod.ns, target.pod.address);
		return buf_str(&f->text);
	case DNS_CHASE:
		buf_consume(&f->text, buf_len(&f->text));
		buf_adds(&f->text, "chase ");
		for (const uint8_t *p = target.name; *p != 0; p += *p + 1)
			buf_printf(&f->text, "%.*s.", (int)*p, (const char *)p + 1);
		return buf_str(&f->text);
	case DNS_ANSWERED:
		break;
	}
	return kit_describe(&f->text, out, *n);
}

void
answer_bed_rows(struct answer_bed *f, const struct answer_row *list, size_t count)
{
	uint8_t m[512], out[DNS_UDP_MAX];
	size_t n = 0, wrong = 0;

	for (size_t i = 0; i < count; i++) {
		const struct answer_row *r = &list[i];
		size_t len = kit_query(m, r->name, r->type, DNS_FLAG_RD, r->edns);
		const char *got = answer_bed_ask(f, m, len, out, &n);

		if (strcmp(got, r->want) == 0)
			continue;
		wrong++;
		print_error("%s type %u:\n  want %s\n  got  %s\n", r->name, r->type, r->want, got);
	}
	assert_int_equal(wrong, 0);
}
