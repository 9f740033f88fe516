#include "dns/front/zone_server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dns/forward/cookie.h"
#include "dns/front/tcp.h"
#include "dns/front/udp.h"

enum outcome { /* the first ones are rcodes */
	OUTCOME_NODATA = 6,
	OUTCOME_BADVERS,
	OUTCOME_DROPPED,
	OUTCOMES
};

static const char *const outcome_names[OUTCOMES] = {"noerror", "formerr", "servfail", "nxdomain",
	"notimp", "refused", "nodata", "badvers", "dropped"};

struct zone_server {
	struct zone_server_config config;
	struct name_zone zone;
	struct udp *udp;
	struct tcp *tcp;
	uint8_t secret[COOKIE_SECRET_BYTES];
	struct udp_counters udp_count;
	uint64_t outcome[OUTCOMES];
	uint8_t tcp_answer[DNS_MESSAGE_MAX];
};

/* --- queries -------------------------------------------------------------------------------- */

static void
zone_server_count(struct zone_server *s, const struct dns_query *q, const uint8_t *answer)
{
	unsigned outcome = answer[3] & 15;

	if (q->rcode == DNS_BADVERS)
		outcome = OUTCOME_BADVERS;
	else if (outcome == DNS_NOERROR && dns_get16(answer + 6) == 0)
		outcome = OUTCOME_NODATA;
	s->outcome[outcome]++;
}

static void
zone_server_answer(struct zone_server *s, const struct dns_query *q, struct dns_out *out)
{
	struct name_found found = {.is = NAME_UNKNOWN};
	struct name_asked asked;

	if (name_zone_read(&s->zone, q, &asked))
		s->config.find(s->config.arg, asked.impossible ? "" : asked.name, &found);
	name_zone_write(&s->zone, q, &asked, &found, out);
}

/* Returns the length of the answer, 0: none. `out->size` 0: by UDP, limited to what the client
 * accepts. */
static size_t
zone_server_handle(struct zone_server *s, const struct dns_client *from, const uint8_t *m,
	size_t len, struct dns_out *out)
{
	struct dns_query q = {.rcode = DNS_NOERROR};
	enum dns_parse parsed = dns_query_parse(&q, m, len);

	if (parsed == DNS_PARSE_DROP) {
		s->outcome[OUTCOME_DROPPED]++;
		return 0;
	}
	if (q.cookie_len > 0) {
		cookie_sign(q.cookie, s->secret, from, (uint32_t)time(NULL));
		q.cookie_len = DNS_COOKIE_BYTES;
	}
	if (out->size == 0)
		out->size = dns_reply_limit(&q);
	if (parsed == DNS_PARSE_REFUSE)
		name_zone_error(&q, (enum dns_rcode)q.rcode, out);
	else
		zone_server_answer(s, &q, out);
	zone_server_count(s, &q, out->bytes);
	return out->len;
}

static size_t
on_udp(void *arg, const struct udp_from *from, const uint8_t *m, size_t len, uint8_t *bytes)
{
	struct dns_out out = {.bytes = bytes};

	return zone_server_handle(arg, from->client, m, len, &out);
}

static void
on_tcp(void *arg, struct tcp_conn *conn, const uint8_t *m, size_t len)
{
	struct zone_server *s = arg;
	struct dns_out out = {.bytes = s->tcp_answer, .size = sizeof s->tcp_answer};

	if (zone_server_handle(s, tcp_client(conn), m, len, &out) > 0)
		tcp_reply(conn, out.bytes, out.len);
}

/* --- start and stop ------------------------------------------------------------------------- */

static int
listen_at(struct zone_server *s, struct err *err)
{
	const struct addr *a = &s->config.listen;
	const struct tcp_handler handler = {.query = on_tcp, .arg = s};
	auto_fd int udp = -1, tcp = -1;
	int rc = sock_udp(a, SOCK_INTERFACE, &udp, err);

	if (rc == 0)
		rc = sock_listen(a, 0, &tcp, err);
	if (rc == -EACCES)
		err_wrap(err, rc, "ports below 1024 need CAP_NET_BIND_SERVICE");
	if (rc < 0)
		return rc;
	udp_open(&s->udp, s->config.loop, take_fd(&udp), &s->udp_count, on_udp, s);
	tcp_open(&s->tcp, s->config.loop, take_fd(&tcp), &handler);
	return 0;
}

int
zone_server_start(
	struct zone_server **out, const struct zone_server_config *config, struct err *err)
{
	struct zone_server *s = xcalloc(1, sizeof *s);
	int rc = name_zone_init(&s->zone, config->zone, config->ttl_s);

	s->config = *config;
	random_bytes(s->secret, sizeof s->secret);
	if (rc < 0)
		err_set(err, rc, "\"%.80s\" leaves no room for names below it", config->zone);
	else
		rc = listen_at(s, err);
	s->config.zone = NULL; /* borrowed from the caller */
	if (rc == 0)
		addr_ip(&config->listen, &s->zone.address);
	else
		zone_server_stop(&s);
	*out = s;
	return rc;
}

void
zone_server_stop(struct zone_server **out)
{
	struct zone_server *s = take_ptr(out);

	if (s == NULL)
		return;
	udp_close(&s->udp);
	tcp_close(&s->tcp);
	free(s);
}

/* --- metrics -------------------------------------------------------------------------------- */

const struct name_zone *
zone_server_zone(const struct zone_server *s)
{
	return &s->zone;
}

void
zone_server_counts(const struct zone_server *s, uint64_t *answered, uint64_t *found)
{
	*answered = 0;
	for (unsigned i = 0; i < OUTCOME_DROPPED; i++)
		*answered += s->outcome[i];
	*found = s->outcome[DNS_NOERROR];
}

void
zone_server_metrics(const struct zone_server *s, const char *name, struct metrics *m)
{
	char label[64];

	for (unsigned i = 0; i < OUTCOMES; i++)
		metric_counter(m, name, "DNS queries by what became of them.",
			metric_label(label, sizeof label, "outcome", outcome_names[i]),
			s->outcome[i]);
	metric_counter(m, name, "DNS queries by what became of them.", "outcome=\"limited\"",
		atomic_load(&s->udp_count.limited));
}
