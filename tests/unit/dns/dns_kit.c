#include "tests/unit/dns/dns_kit.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "model/view.h"

static size_t
put_name(uint8_t *to, const char *name)
{
	size_t len = 0;

	while (*name != '\0') {
		size_t n = strcspn(name, ".");

		to[len++] = (uint8_t)n;
		memcpy(to + len, name, n);
		len += n;
		name += n + (name[n] == '.');
	}
	to[len++] = 0;
	return len;
}

size_t
kit_query(uint8_t to[512], const char *name, unsigned type, unsigned flags, enum kit_edns edns)
{
	size_t n = DNS_HEADER;

	memset(to, 0, DNS_HEADER);
	dns_put16(to, 0xbeef);
	dns_put16(to + 2, flags);
	dns_put16(to + 4, 1);
	dns_put16(to + 10, edns == KIT_PLAIN ? 0 : edns == KIT_TWO_OPT ? 2 : 1);
	n += put_name(to + n, name);
	dns_put16(to + n, type);
	dns_put16(to + n + 2, DNS_CLASS_IN);
	n += 4;
	for (unsigned i = dns_get16(to + 10); i > 0; i--) {
		n += dns_put_opt(to + n, 0, edns == KIT_DO);
		if (edns == KIT_VERSION_1)
			to[n - 5] = 1;
	}
	return n;
}

static void
say_name(struct buf *out, const uint8_t *m, size_t len, size_t at)
{
	uint8_t name[DNS_NAME_MAX];
	size_t end;

	if (dns_name_expand(name, m, len, at, &end) == 0) {
		buf_adds(out, "(bad name)");
		return;
	}
	for (const uint8_t *p = name; *p != 0; p += *p + 1)
		buf_printf(out, "%.*s.", (int)*p, (const char *)p + 1);
}

static void
say_record(struct buf *out, const uint8_t *m, size_t len, const struct dns_record *rr)
{
	char text[INET6_ADDRSTRLEN];
	const uint8_t *d = m + rr->data;

	if (rr->type == DNS_OPT) {
		buf_printf(out, " OPT size=%u%s%s", rr->class, rr->ttl_s & DNS_EDNS_DO ? " do" : "",
			rr->ttl_s >> 24 ? " BADVERS" : "");
		return;
	}
	if (rr->type == DNS_A && rr->data_len == 4) {
		buf_printf(out, " A %s", inet_ntop(AF_INET, d, text, sizeof text));
	} else if (rr->type == DNS_AAAA && rr->data_len == 16) {
		buf_printf(out, " AAAA %s", inet_ntop(AF_INET6, d, text, sizeof text));
	} else if (rr->type == DNS_SOA) {
		buf_adds(out, " SOA of ");
		say_name(out, m, len, rr->start);
	} else if (rr->type == DNS_TXT) {
		buf_printf(out, " TXT %.*s", (int)d[0], (const char *)d + 1);
	} else if (rr->type == DNS_SRV) {
		buf_printf(out, " SRV %u ", dns_get16(d + 4));
		say_name(out, m, len, rr->data + 6);
	} else {
		buf_printf(out, " TYPE%u ", rr->type);
		say_name(out, m, len, rr->data);
	}
	buf_printf(out, " ttl=%u", rr->ttl_s);
}

const char *
kit_describe(struct buf *out, const uint8_t *m, size_t len)
{
	static const char *const rcodes[16] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN",
		"NOTIMP", "REFUSED", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"};
	size_t at = DNS_HEADER, n = 0;

	buf_consume(out, buf_len(out));
	if (len < DNS_HEADER)
		return "malformed";
	buf_printf(out, "%s%s%s an=%u ns=%u ar=%u", rcodes[m[3] & 15], m[2] & 4 ? " aa" : "",
		m[2] & 2 ? " tc" : "", dns_get16(m + 6), dns_get16(m + 8), dns_get16(m + 10));
	for (unsigned i = dns_get16(m + 4); i > 0; i--) {
		at = dns_name_skip(m, len, at);
		if (at == 0 || len - at < 4)
			return "malformed";
		at += 4;
	}
	n = (size_t)dns_get16(m + 6) + dns_get16(m + 8) + dns_get16(m + 10);
	for (size_t i = 0; i < n; i++) {
		struct dns_record rr;

		if (!dns_record_read(&rr, m, len, at))
			return "malformed";
		say_record(out, m, len, &rr);
		at = rr.end;
	}
	return at == len ? buf_str(out) : "malformed";
}

static struct snapshot *
with(struct snapshot *s, uint32_t fake_ip, const char *json)
{
	struct self self = {.node = "a", .site = "", .zone = ""};
	struct snapshot *next;
	struct change c;
	struct view *v;

	if (view_parse(&v, json, strlen(json), NULL) < 0)
		abort();
	c = (struct change){v->ns, v->name, service_build(v, &self, fake_ip, 1)};
	next = snapshot_next(s, &c, 1);
	view_free(&v);
	snapshot_unref(&s);
	return next;
}

#define EXTERNAL(name, to)                                                                         \
	"{\"ns\":\"chain\",\"name\":\"" name "\",\"externalName\":\"" to "\",\"ports\":[]}"
#define GIVEN(host, flags)                                                                         \
	"{\"hostname\":\"" host "\",\"flags\":" flags ",\"givenIP\":\"10.0.0.1\",\"givenPort\":1}"
/* set-1 twice, as when two pods share a hostname; set-2 is not ready. */
#define TWO                                                                                        \
	GIVEN("set-0", "3") "," GIVEN("set-1", "3") "," GIVEN("set-1", "3") "," GIVEN("set-2", "0")
#define SET(host, flags)                                                                           \
	"{\"ns\":\"shop\",\"name\":\"" host ".set\",\"headless\":true,\"ports\":["                 \
	"{\"name\":\"sql\",\"port\":5432,\"mode\":\"tcp\",\"endpoints\":[" GIVEN(                  \
		host, flags) "]},"                                                                 \
			     "{\"port\":9,\"mode\":\"tcp\",\"extra\":true,\"endpoints\":[]}]}"

struct snapshot *
kit_snapshot(void)
{
	struct snapshot *s = snapshot_new(true);

	s = with(s, 0x09fb000a,
		"{\"ns\":\"default\",\"name\":\"web\",\"clusterIP\":\"10.96.0.10\","
		"\"clusterIP6\":\"fd96::10\",\"ports\":["
		"{\"name\":\"http\",\"port\":80,\"mode\":\"http\",\"endpoints\":[]},"
		"{\"name\":\"dns\",\"port\":53,\"mode\":\"udp\",\"endpoints\":["
		"{\"flags\":3,\"givenIP\":\"10.0.0.1\",\"otherGivenIP\":\"2001:db8::1\","
		"\"givenPort\":53}]}]}");
	s = with(s, 0x09fb0019,
		"{\"ns\":\"shop\",\"name\":\"voice\",\"ports\":["
		"{\"name\":\"http\",\"port\":80,\"mode\":\"http\",\"endpoints\":[]},"
		"{\"name\":\"rtp\",\"port\":5004,\"mode\":\"udp\",\"endpoints\":["
		"{\"flags\":3,\"givenIP\":\"10.0.0.1\",\"givenPort\":5004}]}]}");
	s = with(s, 0x09fb000b,
		"{\"ns\":\"shop\",\"name\":\"db\",\"headless\":true,\"ports\":["
		"{\"port\":5432,\"mode\":\"tcp\",\"endpoints\":[]}]}");
	s = with(s, 0x09fb0014,
		"{\"ns\":\"shop\",\"name\":\"set\",\"headless\":true,\"ports\":["
		"{\"name\":\"sql\",\"port\":5432,\"mode\":\"tcp\",\"endpoints\":[" TWO "]},"
		"{\"name\":\"ui\",\"port\":80,\"mode\":\"http\",\"endpoints\":[" TWO "]},"
		"{\"port\":8080,\"mode\":\"http\",\"extra\":true,\"endpoints\":[" TWO "]}]}");
	s = with(s, 0x09fb0015, SET("set-0", "3"));
	s = with(s, 0x09fb0016, SET("set-1", "3"));
	s = with(s, 0x09fb0017, SET("set-2", "0"));
	s = with(s, 0, SET("set-3", "3"));
	s = with(s, 0x09fb0018,
		"{\"ns\":\"shop\",\"name\":\"idle\",\"headless\":true,\"ports\":["
		"{\"name\":\"sql\",\"port\":1,\"mode\":\"tcp\",\"endpoints\":["
		"{\"hostname\":\"i\",\"flags\":0,\"givenIP\":\"10.0.0.1\",\"givenPort\":1}]}]}");
	s = with(s, 0,
		"{\"ns\":\"shop\",\"name\":\"first\",\"externalName\":\"set-0.set.shop.svc.cluster."
		"local\","
		"\"ports\":[]}");
	s = with(s, 0, EXTERNAL("over", "out.default.svc.cluster.local"));
	s = with(s, 0, EXTERNAL("two", "in.default.svc.cluster.local"));
	s = with(s, 0, EXTERNAL("lost", "gone.default.svc.cluster.local"));
	s = with(s, 0, EXTERNAL("dry", "full.shop.svc.cluster.local"));
	s = with(s, 0, EXTERNAL("ring", "bell.chain.svc.cluster.local"));
	s = with(s, 0, EXTERNAL("bell", "ring.chain.svc.cluster.local"));
	s = with(s, 0x09fb000c, "{\"ns\":\"google\",\"name\":\"www\",\"ports\":[]}");
	s = with(s, 0, "{\"ns\":\"shop\",\"name\":\"full\",\"ports\":[]}");
	s = with(s, 0,
		"{\"ns\":\"default\",\"name\":\"out\",\"externalName\":\"www.example.org\","
		"\"ports\":[]}");
	return with(s, 0,
		"{\"ns\":\"default\",\"name\":\"in\",\"externalName\":\"web.default.svc.cluster."
		"local\","
		"\"ports\":[]}");
}
