#include "hub/port/client_hello.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/http/ws_tunnels.h"
#include "hub/port/peer_proto.h"
#include "tunnel/tunnel.h"

enum {
	RECORD_HEAD = 5, /* RFC 8446 section 5.1 */
	RECORD_HANDSHAKE = 22,
	MESSAGE_HEAD = 4, /* section 4 */
	MESSAGE_CLIENT_HELLO = 1,
	EXTENSION_SERVER_NAME = 0,
	EXTENSION_ALPN = 16,
	VERSION_AND_RANDOM = 2 + 32,
};

/* The bytes left to read; `bad` after an attempt to read beyond the end. */
struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static size_t
take_number(struct cursor *c, unsigned bytes)
{
	size_t n = 0;

	if ((size_t)(c->end - c->at) < bytes) {
		c->bad = true;
		return 0;
	}
	while (bytes-- > 0)
		n = n << 8 | *c->at++;
	return n;
}

/* The next n bytes; empty if there are fewer. */
static struct cursor
client_hello_take(struct cursor *c, size_t n)
{
	struct cursor part = {c->at, c->at, false};

	if ((size_t)(c->end - c->at) < n) {
		c->bad = true;
		return part;
	}
	c->at += n;
	part.end = c->at;
	return part;
}

static bool
client_hello_is(const struct cursor *name, const char *what)
{
	size_t n = strlen(what);

	return (size_t)(name->end - name->at) == n && memcmp(name->at, what, n) == 0;
}

static enum client_hello
read_alpn(struct cursor extension)
{
	struct cursor list = client_hello_take(&extension, take_number(&extension, 2));

	while (list.at < list.end && !list.bad) {
		struct cursor name = client_hello_take(&list, take_number(&list, 1));

		if (client_hello_is(&name, TUNNEL_ALPN_REVERSE))
			return CLIENT_HELLO_REVERSE;
		if (client_hello_is(&name, TUNNEL_ALPN_STANDBY))
			return CLIENT_HELLO_STANDBY;
		if (client_hello_is(&name, TUNNEL_ALPN_FORWARD))
			return CLIENT_HELLO_FORWARD;
		if (client_hello_is(&name, TUNNEL_ALPN_RENDEZVOUS))
			return CLIENT_HELLO_RENDEZVOUS;
		if (client_hello_is(&name, PEER_ALPN))
			return CLIENT_HELLO_PEER;
		if (client_hello_is(&name, CARRIER_ALPN))
			return CLIENT_HELLO_CARRIER;
	}
	return CLIENT_HELLO_OTHER;
}

/* The body of the first extension of this type; empty if there is none. */
static struct cursor
find_extension(struct cursor c, size_t wanted)
{
	struct cursor extensions;

	client_hello_take(&c, VERSION_AND_RANDOM);
	client_hello_take(&c, take_number(&c, 1)); /* session id */
	client_hello_take(&c, take_number(&c, 2)); /* cipher suites */
	client_hello_take(&c, take_number(&c, 1)); /* compression */
	extensions = client_hello_take(&c, take_number(&c, 2));
	while (extensions.at < extensions.end && !extensions.bad && !c.bad) {
		size_t type = take_number(&extensions, 2);
		struct cursor body = client_hello_take(&extensions, take_number(&extensions, 2));

		if (type == wanted && !extensions.bad)
			return body;
	}
	return (struct cursor){c.at, c.at, false};
}

static enum client_hello
client_hello_more(size_t *need, size_t n)
{
	if (n > CLIENT_HELLO_MAX)
		return CLIENT_HELLO_OTHER;
	*need = n;
	return CLIENT_HELLO_MORE;
}

/* Collects the ClientHello from its records: CLIENT_HELLO_MORE or CLIENT_HELLO_OTHER; if the
 * latter, *len_out > 0 means a complete message of that length. */
static enum client_hello
client_hello_collect(const uint8_t *bytes, size_t n, size_t *need,
	uint8_t message[CLIENT_HELLO_MAX], size_t *len_out)
{
	size_t have = 0, whole = MESSAGE_HEAD, at = 0;

	n = MIN(n, (size_t)CLIENT_HELLO_MAX);
	while (have < whole) {
		size_t len, part;

		if (n > at && bytes[at] != RECORD_HANDSHAKE)
			return CLIENT_HELLO_OTHER;
		if (n - at < RECORD_HEAD)
			return client_hello_more(need, at + RECORD_HEAD);
		len = (size_t)bytes[at + 3] << 8 | bytes[at + 4];
		if (bytes[at + 1] != 3 || len == 0)
			return CLIENT_HELLO_OTHER;
		at += RECORD_HEAD;
		part = MIN(len, n - at);
		memcpy(message + have, bytes + at, part);
		have += part;
		if (have > 0 && message[0] != MESSAGE_CLIENT_HELLO)
			return CLIENT_HELLO_OTHER;
		if (have >= MESSAGE_HEAD)
			whole = MESSAGE_HEAD +
				((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
		if (have < whole && part < len)
			return client_hello_more(need, at + MIN(len, part + whole - have));
		at += part;
	}
	*len_out = whole;
	return CLIENT_HELLO_OTHER;
}

static bool
is_host(const uint8_t *name, size_t n)
{
	if (n == 0 || n > CLIENT_HELLO_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
			    (name[i] >= '0' && name[i] <= '9') ||
			    memchr("-._", name[i], 3) != NULL))
			return false;
	return true;
}

/* The host in a server_name body; false if there is no valid one. */
static bool
read_name(struct cursor body, char to[CLIENT_HELLO_NAME_MAX + 1])
{
	struct cursor list = client_hello_take(&body, take_number(&body, 2)), name;
	size_t len;

	if (take_number(&list, 1) != 0) /* host_name */
		return false;
	name = client_hello_take(&list, take_number(&list, 2));
	len = (size_t)(name.end - name.at);
	if (list.bad || !is_host(name.at, len))
		return false;
	memcpy(to, name.at, len);
	to[len] = '\0';
	return true;
}

/* A websocket request for a tunnel, which is a GET. */
static enum client_hello
read_plain(const uint8_t *bytes, size_t n, size_t *need)
{
	static const char get[] = "GET /";
	size_t len = strlen(get);

	if (memcmp(bytes, get, MIN(n, len)) != 0)
		return CLIENT_HELLO_OTHER;
	return n >= len ? CLIENT_HELLO_PLAIN : client_hello_more(need, len);
}

enum client_hello
client_hello_read(const uint8_t *bytes, size_t n, size_t *need)
{
	uint8_t message[CLIENT_HELLO_MAX];
	char name[CLIENT_HELLO_NAME_MAX + 1];
	struct cursor hello = {message + MESSAGE_HEAD, NULL, false};
	size_t len = 0;
	enum client_hello rc;

	if (n > 0 && bytes[0] == 'G')
		return read_plain(bytes, n, need);
	rc = client_hello_collect(bytes, n, need, message, &len);
	if (len == 0)
		return rc;
	hello.end = message + len;
	rc = read_alpn(find_extension(hello, EXTENSION_ALPN));
	if (rc == CLIENT_HELLO_OTHER &&
		read_name(find_extension(hello, EXTENSION_SERVER_NAME), name) &&
		strcasecmp(name, CARRIER_SNI) == 0)
		return CLIENT_HELLO_CARRIER_NAMED;
	return rc;
}

bool
client_hello_is_tls(const uint8_t *bytes, size_t n)
{
	return n > 1 && bytes[0] == RECORD_HANDSHAKE && bytes[1] == 3;
}

int
client_hello_name(const uint8_t *bytes, size_t n, char to[CLIENT_HELLO_NAME_MAX + 1])
{
	uint8_t message[CLIENT_HELLO_MAX];
	size_t len = 0, need;

	if (client_hello_collect(bytes, n, &need, message, &len) == CLIENT_HELLO_MORE)
		return 0;
	if (len == 0)
		return -ENOENT;
	return read_name(
		       find_extension((struct cursor){message + MESSAGE_HEAD, message + len, false},
			       EXTENSION_SERVER_NAME),
		       to)
		? 1
		: -ENOENT;
}
