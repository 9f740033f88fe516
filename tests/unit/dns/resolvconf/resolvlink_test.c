/* The route in systemd-resolved, against a bus of the test's own, on the interface lo. */
#include "dns/resolvconf/resolvlink.h"

#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/sock.h"
#include "tests/unit/patience.h"

enum { LOOPBACK = 0x7f000001, HEAD_BYTES = 16, MEMBER = 3 };
#define ORDER (BYTE_ORDER == LITTLE_ENDIAN ? 'l' : 'B')

struct fixture {
	struct loop *loop;
	struct resolvlink *link;
	char folder[64], path[96], servers[96];
	int listener, conn;
	struct watch *accepting, *reading;
	struct buf in;
	bool begun, silent;
	const char *refusal; /* the error that every call gets but Hello; NULL: none */
	char said[512]; /* the methods that were called, and texts among their arguments */
	char *kept;
	bool closed;
	struct fake6 subnet6;
	bool frozen; /* the keep may not be used */
};

static int
keep_get(void *arg, const char *key, char **data, size_t *len)
{
	struct fixture *f = arg;

	assert_false(f->frozen);
	assert_string_equal(key, "resolved.link");
	if (f->kept == NULL)
		return -ENOENT;
	*data = xstrdup(f->kept);
	*len = strlen(f->kept);
	return 0;
}

static int
keep_put(void *arg, const char *key, const void *data, size_t len)
{
	struct fixture *f = arg;

	(void)key;
	assert_false(f->frozen);
	free(f->kept);
	f->kept = xstrndup(data, len);
	return 0;
}

static int
keep_del(void *arg, const char *key)
{
	struct fixture *f = arg;

	(void)key;
	assert_false(f->frozen);
	free(take_ptr(&f->kept));
	return 0;
}

/* --- the interfaces ------------------------------------------------------------------------- */

/* Two addresses on lo, whatever this machine has. */
int
getifaddrs(struct ifaddrs **all)
{
	static char name[] = "lo";
	static struct sockaddr_in at[2];
	static struct ifaddrs list[2];

	for (uint32_t i = 0; i < ARRAY_LEN(list); i++) {
		at[i] = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(LOOPBACK + i)};
		list[i] = (struct ifaddrs){.ifa_next = i == 0 ? &list[1] : NULL,
			.ifa_name = name,
			.ifa_flags = IFF_UP | IFF_RUNNING,
			.ifa_addr = (void *)&at[i]};
	}
	*all = list;
	return 0;
}

void
freeifaddrs(struct ifaddrs *all)
{
	(void)all;
}

/* --- the bus -------------------------------------------------------------------------------- */

static uint32_t
u32_at(const char *at)
{
	uint32_t n;

	memcpy(&n, at, sizeof n);
	return n;
}

/* A reply without arguments, or an error with a text; its only other field is the error's name. */
static void
bus_reply(struct fixture *f, const char *refusal)
{
	char name[] = "\x04\x01s\0\0\0\0\0org.freedesktop.DBus.Error.ServiceUnknown\0\0\0\0\0\0\0";
	char sign[] = "\x08\x01g\0\x01s\0"; /* one byte less than it is aligned to */
	uint32_t text_len = refusal != NULL ? (uint32_t)strlen(refusal) : 0;
	uint32_t name_len = (uint32_t)strlen(name + 8);
	uint32_t name_size = (8 + name_len + 1 + 7) / 8 * 8;
	uint32_t head[3] = {0, 1, 0};
	char kind[] = {(char)ORDER, refusal != NULL ? 3 : 2, 1, 1};
	struct buf out;

	if (refusal != NULL && strcmp(refusal, "absent") != 0)
		name[8] = 'x'; /* another error */
	name_len = (uint32_t)strlen(name + 8);
	memcpy(name + 4, &name_len, sizeof name_len);
	head[0] = refusal != NULL ? 4 + text_len + 1 : 0;
	head[2] = refusal != NULL ? name_size + 7 : 0;
	buf_init(&out, BUF_UNLIMITED);
	buf_add(&out, kind, sizeof kind);
	buf_add(&out, head, sizeof head);
	if (refusal != NULL) {
		buf_add(&out, name, name_size);
		buf_add(&out, sign, 8);
		buf_add(&out, &text_len, sizeof text_len);
		buf_add(&out, refusal, text_len + 1);
	}
	assert_int_equal(send(f->conn, buf_at(&out), buf_len(&out), MSG_NOSIGNAL), buf_len(&out));
	buf_fini(&out);
}

/* The member's name stands behind its field's head, 8-aligned. */
static const char *
member_of(const char *message, size_t end)
{
	for (size_t at = HEAD_BYTES; at + 8 < end; at += 8)
		if (message[at] == MEMBER && memcmp(message + at + 1, "\x01s", 3) == 0)
			return message + at + 8;
	fail_msg("a call without a member");
	return NULL;
}

static bool
bus_take_message(struct fixture *f)
{
	const char *m = buf_at(&f->in), *member;
	size_t fields, size;

	if (buf_len(&f->in) < HEAD_BYTES)
		return false;
	assert_int_equal(m[0], ORDER);
	fields = HEAD_BYTES + (u32_at(m + 12) + 7) / 8 * 8;
	size = fields + u32_at(m + 4);
	if (buf_len(&f->in) < size)
		return false;
	member = member_of(m, fields);
	if (strcmp(member, "Hello") != 0) {
		sprintf(f->said + strlen(f->said), "%s ", member);
		assert_int_equal(u32_at(m + fields), if_nametoindex("lo"));
		for (const char *c = m + fields; c < m + size; c++)
			if (c[0] >= '0' && c[0] <= 'z' && (c == m + fields || c[-1] == '\0') &&
				strlen(c) > 1)
				sprintf(f->said + strlen(f->said), "%s ", c);
	}
	if (!f->silent)
		bus_reply(f, strcmp(member, "Hello") == 0 ? NULL : f->refusal);
	buf_consume(&f->in, size);
	return true;
}

static void
on_bus(void *arg, int fd, unsigned events)
{
	struct fixture *f = arg;
	ssize_t n = buf_read(&f->in, fd, 65536);
	const char *begin;

	(void)events;
	if (n == 0) {
		watch_stop(&f->reading);
		close(fd);
		return;
	}
	if (!f->begun && buf_len(&f->in) > 1 && buf_str(&f->in)[0] == '\0' &&
		strstr(buf_str(&f->in) + 1, "\r\n") != NULL) {
		assert_memory_equal(buf_at(&f->in) + 1, "AUTH EXTERNAL 3", 15);
		buf_consume(&f->in, buf_len(&f->in));
		assert_int_equal(send(fd, "OK 0123\r\n", 9, MSG_NOSIGNAL), 9);
		f->begun = true;
		return;
	}
	begin = buf_at(&f->in);
	if (f->begun && buf_len(&f->in) >= 7 && memcmp(begin, "BEGIN\r\n", 7) == 0)
		buf_consume(&f->in, 7);
	while (f->begun && bus_take_message(f))
		;
}

static void
on_dialled(void *arg, int fd, unsigned events)
{
	struct fixture *f = arg;

	(void)events;
	f->conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(f->conn >= 0);
	buf_consume(&f->in, buf_len(&f->in));
	f->begun = false;
	f->reading = watch_start(f->loop, f->conn, WATCH_READ, on_bus, f);
}

static void
bus_start(struct fixture *f)
{
	auto_free char *text = xasprintf("unix:%s", f->path);
	struct addr a;

	assert_int_equal(addr_parse(&a, text, 0, NULL), 0);
	assert_int_equal(sock_listen(&a, 0, &f->listener, NULL), 0);
	f->accepting = watch_start(f->loop, f->listener, WATCH_READ, on_dialled, f);
}

/* --- fixture -------------------------------------------------------------------------------- */

static void
open_it(struct fixture *f, bool wanted)
{
	const struct resolvlink_config config = {.loop = f->loop,
		.wanted = wanted,
		.cluster_domain = "cluster.local",
		.subnet = 0x09fb0000,
		.mask = 0xffff0000,
		.subnet6 = f->subnet6,
		.port = 53,
		.servers = f->servers,
		.bus = f->path,
		.keep = {f, keep_get, keep_put, keep_del}};

	resolvlink_open(&f->link, &config);
}

static void
on_closed(void *arg)
{
	((struct fixture *)arg)->closed = true;
}

static bool
has_state(struct fixture *f, const char *part)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	resolvlink_state(f->link, &out);
	return strstr(buf_str(&out), part) != NULL;
}

static void
close_it(struct fixture *f)
{
	f->closed = false;
	resolvlink_close(&f->link, on_closed, f);
	patience_until(patience_turn(f->loop), f->closed);
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof *f);

	strcpy(f->folder, "/tmp/edgeway-link-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	sprintf(f->path, "%s/bus", f->folder);
	sprintf(f->servers, "%s/resolv.conf", f->folder);
	assert_int_equal(loop_new(&f->loop, NULL), 0);
	buf_init(&f->in, BUF_UNLIMITED);
	f->listener = -1;
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	if (f->reading != NULL) {
		watch_stop(&f->reading);
		close(f->conn);
	}
	watch_stop(&f->accepting);
	if (f->listener >= 0)
		close(f->listener);
	unlink(f->path);
	unlink(f->servers);
	rmdir(f->folder);
	loop_free(&f->loop);
	buf_fini(&f->in);
	free(f->kept);
	free(f);
	return 0;
}

/* --- tests ---------------------------------------------------------------------------------- */

static void
the_domain_is_routed_and_taken_back(void **state)
{
	struct fixture *f = *state;

	bus_start(f);
	open_it(f, true);
	resolvlink_use(f->link, LOOPBACK);
	patience_until(patience_turn(f->loop), has_state(f, "\"set\":true"));
	assert_string_equal(f->said,
		"SetLinkDomains cluster.local 251.9.in-addr.arpa SetLinkDefaultRoute "
		"SetLinkDNSSEC no SetLinkDNSOverTLS no SetLinkDNSEx ");
	assert_non_null(strstr(f->kept, " lo"));
	assert_true(
		has_state(f, "\"way\":\"resolved\",\"link\":\"lo\",\"set\":true,\"fault\":\"\""));
	f->said[0] = '\0';
	resolvlink_use(f->link, LOOPBACK);
	resolvlink_use(f->link, 0);
	close_it(f);
	assert_string_equal(f->said, "RevertLink ");
	assert_null(f->kept);
}

/* resolved has written its list of servers without ours. */
static void
a_lost_setting_is_set_again(void **state)
{
	struct fixture *f = *state;

	bus_start(f);
	assert_int_equal(file_write(f->servers, "nameserver 127.0.0.1\n", 21, 0644), 0);
	open_it(f, true);
	resolvlink_use(f->link, LOOPBACK);
	patience_until(patience_turn(f->loop), has_state(f, "\"set\":true"));
	f->said[0] = '\0';
	resolvlink_look(f->link);
	patience_until(patience_turn(f->loop), strcmp(f->said, "GetLink ") == 0);
	assert_int_equal(file_write(f->servers, "nameserver 192.0.2.1\n", 21, 0644), 0);
	resolvlink_look(f->link);
	patience_until(patience_turn(f->loop), strstr(f->said, "SetLinkDNSEx") != NULL);
	close_it(f);
	assert_non_null(f->kept); /* it stays: onStop keep, or a successor */
}

static void
what_a_killed_run_left_is_undone(void **state)
{
	struct fixture *f = *state;
	auto_free char *other = xasprintf("%u other", if_nametoindex("lo"));

	bus_start(f);
	keep_put(f, "", other, strlen(other)); /* another link has its number now */
	open_it(f, false);
	close_it(f);
	assert_string_equal(f->said, "");
	assert_null(f->kept);
	free(take_ptr(&other));
	other = xasprintf("%u lo", if_nametoindex("lo"));
	keep_put(f, "", other, strlen(other));
	open_it(f, false);
	resolvlink_use(f->link, LOOPBACK); /* not wanted */
	close_it(f);
	assert_string_equal(f->said, "RevertLink ");
	assert_null(f->kept);
}

static void
trouble_has_its_reason_and_ends(void **state)
{
	struct fixture *f = *state;

	open_it(f, true);
	resolvlink_use(f->link, LOOPBACK);
	assert_true(has_state(f, "\"set\":false,\"fault\":\"there is no system bus of D-Bus: "));
	bus_start(f);
	f->refusal = "absent";
	patience_until(patience_turn(f->loop), has_state(f, "\"systemd-resolved does not run\""));
	f->refusal = "Link lo is managed.";
	patience_until(patience_turn(f->loop),
		has_state(f, "\"systemd-resolved refuses it: Link lo is managed.\""));
	f->silent = true;
	patience_until(patience_turn(f->loop), has_state(f, "\"no answer over D-Bus\""));
	f->silent = false;
	f->refusal = NULL;
	patience_until(patience_turn(f->loop), has_state(f, "\"set\":true,\"fault\":\"\""));
	resolvlink_use(f->link, 0xc0000201);
	patience_until(patience_turn(f->loop),
		has_state(f, "\"no interface has the address of the mesh\""));
	assert_non_null(strstr(f->said, "RevertLink"));
	close_it(f);
}

/* While the keep is closed nothing is begun; then it is. */
static void
held_it_waits(void **state)
{
	struct fixture *f = *state;

	bus_start(f);
	open_it(f, true);
	resolvlink_hold(f->link, true);
	resolvlink_use(f->link, LOOPBACK);
	assert_null(f->kept);
	resolvlink_hold(f->link, false);
	patience_until(patience_turn(f->loop), has_state(f, "\"set\":true"));
	close_it(f);
}

/* Also what had begun before: a successor may have the keep by then. */
static void
what_was_under_way_is_noted_later(void **state)
{
	struct fixture *f = *state;

	bus_start(f);
	open_it(f, true);
	resolvlink_use(f->link, LOOPBACK);
	patience_until(patience_turn(f->loop), has_state(f, "\"set\":true"));
	resolvlink_use(f->link, 0);
	f->frozen = true;
	resolvlink_hold(f->link, true);
	patience_until(patience_turn(f->loop),
		strstr(f->said, "RevertLink") != NULL && f->reading == NULL);
	assert_non_null(f->kept);
	f->frozen = false;
	resolvlink_hold(f->link, false);
	assert_null(f->kept);
	close_it(f);
}

/* A prefix that ends within four bits has several. */
static void
the_reverse_zones_of_ipv6_are_routed_too(void **state)
{
	static const struct {
		const char *range, *zones;
	} cases[] = {
		{"fd09:251::/64", " 0.0.0.0.0.0.0.0.1.5.2.0.9.0.d.f.ip6.arpa SetLinkDefaultRoute"},
		{"fd09:251:c000::/35",
			" c.1.5.2.0.9.0.d.f.ip6.arpa d.1.5.2.0.9.0.d.f.ip6.arpa "
			"SetLinkDefaultRoute"},
	};
	struct fixture *f = *state;

	bus_start(f);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		f->said[0] = '\0';
		assert_int_equal(fake6_parse(&f->subnet6, cases[i].range, NULL), 0);
		open_it(f, true);
		resolvlink_use(f->link, LOOPBACK);
		patience_until(patience_turn(f->loop), has_state(f, "\"set\":true"));
		if (strstr(f->said, cases[i].zones) == NULL)
			fail_msg("%s: %s", cases[i].range, f->said);
		close_it(f);
	}
}

static void
an_address_that_changes_meanwhile_is_set_too(void **state)
{
	struct fixture *f = *state;
	const char *first;

	bus_start(f);
	open_it(f, true);
	resolvlink_use(f->link, LOOPBACK);
	resolvlink_use(f->link, LOOPBACK + 1);
	patience_until(patience_turn(f->loop),
		(first = strstr(f->said, "SetLinkDNSEx")) != NULL &&
			strstr(first + 1, "SetLinkDNSEx") != NULL);
	patience_until(patience_turn(f->loop), has_state(f, "\"set\":true"));
	close_it(f);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_domain_is_routed_and_taken_back),
		T(a_lost_setting_is_set_again),
		T(what_a_killed_run_left_is_undone),
		T(trouble_has_its_reason_and_ends),
		T(held_it_waits),
		T(what_was_under_way_is_noted_later),
		T(the_reverse_zones_of_ipv6_are_routed_too),
		T(an_address_that_changes_meanwhile_is_set_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
