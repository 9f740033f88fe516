#include "base/http/wshake.h"

#include <stdio.h>
#include <string.h>

#include "base/core/base64.h"
#include "base/tls/pki.h"

const struct http1_field *
wshake_find(const struct http1_head *h, const char *lowercase)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (http1_is(h->fields[i].name, lowercase))
			return &h->fields[i];
	return NULL;
}

bool
wshake_lists(const struct http1_field *f, const char *lowercase)
{
	const char *at, *end;

	if (f == NULL)
		return false;
	for (at = f->value.at, end = at + f->value.len; at < end;) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		struct http1_str item = {at, (size_t)((comma != NULL ? comma : end) - at)};

		at += item.len + 1;
		while (item.len > 0 && strchr(" \t", item.at[0]) != NULL) {
			item.at++;
			item.len--;
		}
		while (item.len > 0 && strchr(" \t", item.at[item.len - 1]) != NULL)
			item.len--;
		if (http1_is(item, lowercase))
			return true;
	}
	return false;
}

void
wshake_accept_for(const char *key, size_t len, char accept[WSHAKE_ACCEPT_TEXT])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t hash[PKI_SHA1_BYTES];
	auto_buf struct buf text, said;

	buf_init(&said, BUF_UNLIMITED);
	buf_init(&text, BUF_UNLIMITED);
	buf_add(&said, key, len);
	buf_adds(&said, guid);
	pki_sha1(buf_at(&said), buf_len(&said), hash);
	base64_add(&text, hash, sizeof hash);
	snprintf(accept, WSHAKE_ACCEPT_TEXT, "%s", buf_str(&text));
}

static bool
is_key(const struct http1_field *f)
{
	unsigned char bytes[WSHAKE_KEY_BYTES + 2]; /* whole groups of three */
	size_t at = 0;

	return f != NULL && f->value.len == WSHAKE_KEY_TEXT - 1 &&
		base64_take(f->value.at, f->value.len, &at, bytes, sizeof bytes) ==
		WSHAKE_KEY_BYTES;
}

unsigned
wshake_judge(const struct http1_head *h, const char *protocol, char accept[WSHAKE_ACCEPT_TEXT],
	const char **why)
{
	const struct http1_field *version = wshake_find(h, "sec-websocket-version");
	const struct http1_field *key = wshake_find(h, "sec-websocket-key");

	*why = "this path is for websockets";
	if (!http1_is(h->method, "get") || !h->upgrade ||
		!wshake_lists(http1_find(h, HTTP1_UPGRADE), "websocket"))
		return 426;
	*why = "a body where none may be";
	if (h->framing != HTTP1_EMPTY && h->length != 0)
		return 400;
	*why = "another version of websockets than 13";
	if (version == NULL || !http1_is(version->value, "13"))
		return 426;
	*why = "no Sec-WebSocket-Key of 16 bytes";
	if (!is_key(key))
		return 400;
	*why = "Sec-WebSocket-Protocol does not name what is spoken here";
	if (protocol != NULL && !wshake_lists(wshake_find(h, "sec-websocket-protocol"), protocol))
		return 400;
	wshake_accept_for(key->value.at, key->value.len, accept);
	return 0;
}

void
wshake_accept(struct buf *out, const char *protocol, const char *accept)
{
	buf_printf(out,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Accept: %s\r\n",
		accept);
	if (protocol != NULL)
		buf_printf(out, "Sec-WebSocket-Protocol: %s\r\n", protocol);
	buf_adds(out, "\r\n");
}
