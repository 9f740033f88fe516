#include "src/agent/dns_selfcheck.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/sock.h"

enum { HEAD_BYTES = 12, ID_BYTES = 2 };

struct dns_selfcheck {
	struct dns_selfcheck_config config;
	struct timer *timer;
	int fd; /* of the open query, -1: none */
	struct watch *watch;
	uint32_t address; /* 0: not querying */
	uint8_t query[512]; /* RFC 1035 section 4.1: one question, the cluster domain's SOA */
	size_t query_len;
};

static void
make_query(struct dns_selfcheck *c, const char *domain)
{
	static const uint8_t head[HEAD_BYTES] = {[5] = 1}, tail[] = {0, 0, 6, 0, 1};
	uint8_t *at = c->query + HEAD_BYTES;

	memcpy(c->query, head, sizeof head);
	while (*domain != '\0') {
		size_t len = strcspn(domain, ".");

		assert(len <= 63 && at + 1 + len + sizeof tail <= c->query + sizeof c->query);
		*at++ = (uint8_t)len;
		memcpy(at, domain, len);
		at += len;
		domain += len + (domain[len] == '.');
	}
	memcpy(at, tail, sizeof tail);
	c->query_len = (size_t)(at - c->query) + sizeof tail;
}

static void
close_query(struct dns_selfcheck *c)
{
	watch_stop(&c->watch);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static void
on_answer(void *arg, int fd, unsigned events)
{
	struct dns_selfcheck *c = arg;
	uint8_t head[HEAD_BYTES];
	ssize_t n = recv(fd, head, sizeof head, MSG_DONTWAIT);

	(void)events;
	if (n < 0)
		(void)sock_error(fd); /* nothing listens there: the timer asks again */
	if (n < (ssize_t)sizeof head || memcmp(head, c->query, ID_BYTES) != 0 ||
		(head[2] & 0x80) == 0)
		return;
	close_query(c);
	c->config.answered(c->config.arg);
}

static void
dns_selfcheck_send(void *arg)
{
	struct dns_selfcheck *c = arg;
	struct addr to = addr_ipv4(c->address, c->config.port);

	close_query(c);
	random_bytes(c->query, ID_BYTES);
	c->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return;
	(void)setsockopt(c->fd, SOL_SOCKET, SO_MARK, &c->config.mark, sizeof c->config.mark);
	if (connect(c->fd, &to.sa, to.len) < 0 || send(c->fd, c->query, c->query_len, 0) < 0) {
		close_query(c);
		return;
	}
	c->watch = watch_start(c->config.loop, c->fd, WATCH_READ, on_answer, c);
}

void
dns_selfcheck_start(struct dns_selfcheck **out, const struct dns_selfcheck_config *config)
{
	struct dns_selfcheck *c = xcalloc(1, sizeof *c);

	c->config = *config;
	make_query(c, config->domain);
	c->fd = -1;
	c->timer = timer_new(config->loop, dns_selfcheck_send, c);
	*out = c;
}

void
dns_selfcheck_ask(struct dns_selfcheck *c, uint32_t address)
{
	close_query(c);
	c->address = address;
	timer_cancel(c->timer);
	if (address != 0)
		timer_start(c->timer, 0, DNS_SELFCHECK_EVERY_MS);
}

void
dns_selfcheck_stop(struct dns_selfcheck **out)
{
	struct dns_selfcheck *c = take_ptr(out);

	if (c == NULL)
		return;
	close_query(c);
	timer_free(&c->timer);
	free(c);
}
