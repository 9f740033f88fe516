#include "tunnel/node/rendezvous_line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const words[] = {
	[RENDEZVOUS_MEET] = "meet",
	[RENDEZVOUS_COME] = "come",
	[RENDEZVOUS_GO] = "go",
	[RENDEZVOUS_NO] = "no",
};

bool
rendezvous_id_ok(const char *id)
{
	return strlen(id) == RENDEZVOUS_ID_LEN &&
		strspn(id, "0123456789abcdef") == RENDEZVOUS_ID_LEN;
}

/* Cuts the text before the next blank off. NULL: there is none. */
static char *
rendezvous_next_word(char **at)
{
	char *word = *at, *blank = strchr(word, ' ');

	if (blank == NULL)
		return NULL;
	*blank = '\0';
	*at = blank + 1;
	return word;
}

/* IP and port, of which none is 0. */
static bool
rendezvous_read_addr(const char *text, struct addr *to)
{
	struct in6_addr ip;

	return text != NULL && strlen(text) < ADDR_TEXT_MAX && addr_parse(to, text, 0, NULL) == 0 &&
		addr_ip(to, &ip) && addr_port(to) != 0;
}

static bool
rendezvous_read_go(char *rest, struct rendezvous_line *to)
{
	const char *own = rendezvous_next_word(&rest), *other = rendezvous_next_word(&rest);
	size_t digits = strspn(rest, "0123456789");

	if (!rendezvous_read_addr(own, &to->own) || !rendezvous_read_addr(other, &to->other) ||
		digits == 0 || digits > 4 || rest[digits] != '\0')
		return false;
	to->delay_ms = (unsigned)strtoul(rest, NULL, 10);
	return to->delay_ms <= RENDEZVOUS_DELAY_MS;
}

static bool
rendezvous_read_rest(char *rest, struct rendezvous_line *to)
{
	if (to->word == RENDEZVOUS_GO)
		return rendezvous_read_go(rest, to);
	if (*rest == '\0' || strlen(rest) >= sizeof to->text)
		return false;
	memcpy(to->text, rest, strlen(rest) + 1);
	return to->word != RENDEZVOUS_COME || rendezvous_id_ok(rest);
}

ssize_t
rendezvous_line_read(const char *bytes, size_t n, struct rendezvous_line *to)
{
	const char *end = memchr(bytes, '\n', n);
	char copy[RENDEZVOUS_LINE_MAX + 1], *rest = copy;
	const char *word;
	size_t len = end != NULL ? (size_t)(end - bytes) : n;

	*to = (struct rendezvous_line){0};
	if (len > RENDEZVOUS_LINE_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < len; i++)
		if (bytes[i] < ' ' || bytes[i] > '~')
			return -EBADMSG;
	if (end == NULL)
		return 0;
	memcpy(copy, bytes, len);
	copy[len] = '\0';
	if ((word = rendezvous_next_word(&rest)) == NULL)
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		to->word = (enum rendezvous_word)i;
		if (strcmp(word, words[i]) == 0)
			return rendezvous_read_rest(rest, to) ? (ssize_t)len + 1 : -EBADMSG;
	}
	return -EBADMSG;
}

void
rendezvous_line_write(const struct rendezvous_line *l, struct buf *out)
{
	char own[ADDR_TEXT_MAX], other[ADDR_TEXT_MAX];

	if (l->word == RENDEZVOUS_GO)
		buf_printf(out, "go %s %s %u\n", addr_text(&l->own, own),
			addr_text(&l->other, other), l->delay_ms);
	else
		buf_printf(out, "%s %s\n", words[l->word], l->text);
}
