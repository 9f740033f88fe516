#include "hub/port/peer_proto.h"

#include <errno.h>
#include <string.h>

#include "hub/port/route.h"

enum { EPOCH_DIGITS = 19 };

/* The form of a line after its first word. */
enum shape {
	SHAPE_ALONE,
	SHAPE_NODE,
	SHAPE_EPOCH_NODE,
	SHAPE_ID_NAME,
	SHAPE_NODE_ENTRY,
	SHAPE_PRESENCE,
	SHAPE_TEXT
};

static const struct {
	const char *text;
	enum shape shape;
} words[] = {
	[PEER_SAYS_HUB] = {"hub", SHAPE_ID_NAME},
	[PEER_SAYS_HOLDS] = {"holds", SHAPE_EPOCH_NODE},
	[PEER_SAYS_GONE] = {"gone", SHAPE_NODE},
	[PEER_SAYS_JOINED] = {"joined", SHAPE_NODE},
	[PEER_SAYS_DECLARES] = {"declares", SHAPE_NODE},
	[PEER_SAYS_REACH] = {"reach", SHAPE_NODE_ENTRY},
	[PEER_SAYS_FORGETS] = {"forgets", SHAPE_NODE},
	[PEER_SAYS_THERE] = {"there", SHAPE_PRESENCE},
	[PEER_SAYS_AWAY] = {"away", SHAPE_PRESENCE},
	[PEER_SAYS_TROUBLE] = {"trouble", SHAPE_TEXT},
	[PEER_SAYS_WHOLE] = {"whole", SHAPE_ALONE},
	[PEER_SAYS_LEAVING] = {"leaving", SHAPE_ALONE},
};

/* The rest of a line; parts are separated by spaces. */
struct cursor {
	const char *at, *end;
};

static size_t
take_part(struct cursor *c, const char **part)
{
	const char *blank = memchr(c->at, ' ', (size_t)(c->end - c->at));
	const char *end = blank != NULL ? blank : c->end;

	*part = c->at;
	c->at = blank != NULL ? blank + 1 : end;
	return (size_t)(end - *part);
}

/* The next part as text; false: there is none, or it is too long. */
static bool
take_text(struct cursor *c, char *to, size_t size)
{
	const char *part;
	size_t n = take_part(c, &part);

	if (n == 0 || n >= size || memchr(part, '\0', n) != NULL)
		return false;
	memcpy(to, part, n);
	to[n] = '\0';
	return true;
}

static bool
take_node(struct cursor *c, struct peer_said *to)
{
	return take_text(c, to->node, sizeof to->node) && node_name_ok(to->node);
}

static bool
take_number(struct cursor *c, uint64_t *number)
{
	char digits[EPOCH_DIGITS + 1];

	if (!take_text(c, digits, sizeof digits) || strspn(digits, "0123456789") != strlen(digits))
		return false;
	*number = strtoull(digits, NULL, 10);
	return *number >= 1 && *number <= PEER_EPOCH_MAX;
}

/* A text that may be empty, written "-". */
static bool
take_word(struct cursor *c, char *to, size_t size)
{
	if (!take_text(c, to, size))
		return false;
	if (strcmp(to, "-") == 0)
		to[0] = '\0';
	return true;
}

/* The rest of the line, including spaces. */
static bool
take_words(struct cursor *c, struct peer_said *to)
{
	size_t n = MIN((size_t)(c->end - c->at), sizeof to->words - 1);

	if (memchr(c->at, '\0', n) != NULL)
		return false;
	memcpy(to->words, c->at, n);
	to->words[n] = '\0';
	return true;
}

/* The text after the version is the reason. */
static bool
take_presence(struct cursor *c, struct peer_said *to)
{
	uint64_t since;

	if (!take_node(c, to) || !take_number(c, &since) ||
		!take_word(c, to->address, sizeof to->address) ||
		!take_word(c, to->version, sizeof to->version))
		return false;
	to->since_ms = (int64_t)since;
	return take_words(c, to);
}

bool
peer_proto_id_ok(const char *id)
{
	return strlen(id) == PEER_ID_TEXT - 1 && strspn(id, "0123456789abcdef") == PEER_ID_TEXT - 1;
}

bool
peer_proto_name_ok(const char *name)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
	size_t n = strlen(name);

	return n > 0 && n < PEER_NAME_TEXT && strspn(name, letters) == n;
}

static bool
take_rest(struct cursor *c, enum shape shape, struct peer_said *to)
{
	switch (shape) {
	case SHAPE_EPOCH_NODE:
		return take_number(c, &to->epoch) && take_node(c, to);
	case SHAPE_NODE:
		return take_node(c, to);
	case SHAPE_NODE_ENTRY: /* its user checks the text */
		return take_node(c, to) && take_text(c, to->entry, sizeof to->entry);
	case SHAPE_PRESENCE:
		return take_presence(c, to);
	case SHAPE_TEXT:
		return take_words(c, to);
	case SHAPE_ID_NAME:
		return take_text(c, to->id, sizeof to->id) && peer_proto_id_ok(to->id) &&
			take_text(c, to->name, sizeof to->name) && peer_proto_name_ok(to->name);
	case SHAPE_ALONE:
		break;
	}
	return true;
}

static int
peer_proto_bad(struct peer_said *to, const char *why)
{
	to->why = why;
	return -EPROTO;
}

int
peer_proto_read(const char *bytes, size_t n, size_t *used, struct peer_said *to)
{
	const char *end = n > 0 ? memchr(bytes, '\n', MIN(n, (size_t)PEER_LINE_MAX)) : NULL;
	struct cursor line = {bytes, end};
	const char *word;
	size_t len;

	if (end == NULL)
		return n >= PEER_LINE_MAX ? peer_proto_bad(to, "a line of the list is too long")
					  : 0;
	*used = (size_t)(end - bytes) + 1;
	len = take_part(&line, &word);
	to->word = PEER_SAYS_OTHER;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (len != strlen(words[i].text) || memcmp(word, words[i].text, len) != 0)
			continue;
		to->word = (enum peer_word)i;
		/* Additional text of a later version is ignored, too. */
		return take_rest(&line, words[i].shape, to)
			? 1
			: peer_proto_bad(to, "a line of the list is not what it should be");
	}
	return 1;
}

void
peer_proto_hub(struct buf *to, const char *id, const char *name)
{
	buf_printf(to, "%s %s %s\n", words[PEER_SAYS_HUB].text, id, name);
}

void
peer_proto_say(struct buf *to, enum peer_word word, const char *node, uint64_t epoch)
{
	switch (words[word].shape) {
	case SHAPE_EPOCH_NODE:
		buf_printf(to, "%s %llu %s\n", words[word].text, (unsigned long long)epoch, node);
		break;
	case SHAPE_NODE:
		buf_printf(to, "%s %s\n", words[word].text, node);
		break;
	case SHAPE_ALONE:
		buf_printf(to, "%s\n", words[word].text);
		break;
	case SHAPE_ID_NAME:
	case SHAPE_NODE_ENTRY:
	case SHAPE_PRESENCE:
	case SHAPE_TEXT:
		break;
	}
}

void
peer_proto_reach(struct buf *to, const char *node, const char *entry)
{
	buf_printf(to, "%s %s %s\n", words[PEER_SAYS_REACH].text, node, entry);
}

/* Spaces separate the parts, and the line feed ends the line: `blank` replaces characters that
 * cannot be sent. */
static void
add_printable(struct buf *to, const char *text, size_t most, char blank)
{
	for (size_t i = 0; i < most && text[i] != '\0'; i++) {
		unsigned char c = (unsigned char)text[i];
		char said = c < ' ' || c == 0x7f || (c == ' ' && blank != ' ') ? blank : text[i];

		buf_add(to, &said, 1);
	}
}

void
peer_proto_presence(struct buf *to, const struct presence_row *row)
{
	buf_printf(to, "%s %s %llu ", words[row->connected ? PEER_SAYS_THERE : PEER_SAYS_AWAY].text,
		row->node, (unsigned long long)MAX(row->since_ms, (int64_t)1));
	add_printable(to, row->address[0] != '\0' ? row->address : "-", PRESENCE_ADDRESS_MAX, '_');
	buf_adds(to, " ");
	add_printable(to, row->version[0] != '\0' ? row->version : "-", PRESENCE_VERSION_MAX, '_');
	if (!row->connected) {
		buf_adds(to, " ");
		add_printable(to, row->words, PRESENCE_WORDS_MAX, ' ');
	}
	buf_adds(to, "\n");
}

void
peer_proto_trouble(struct buf *to, const char *text)
{
	buf_printf(to, "%s ", words[PEER_SAYS_TROUBLE].text);
	add_printable(to, text, PRESENCE_WORDS_MAX, ' ');
	buf_adds(to, "\n");
}
