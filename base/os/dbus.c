#include "base/os/dbus.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/sock.h"
#include "base/os/dbus_message.h"

#define SYSTEM_BUS "/run/dbus/system_bus_socket"
#define BUS "org.freedesktop.DBus"

enum {
	ORDER = BYTE_ORDER == LITTLE_ENDIAN ? 'l' : 'B',
	TYPE_CALL = 1,
	NO_AUTO_START = 2,
	VERSION = 1,
	FIELD_PATH = 1,
	FIELD_INTERFACE = 2,
	FIELD_MEMBER = 3,
	FIELD_DESTINATION = 6,
	FIELD_SIGNATURE = 8,
	LINE_MAX_BYTES = 1024,
};

struct dbus {
	struct dbus_config config;
	char *destination, *object, *interface;
	int fd;
	struct watch *watch;
	struct timer *timeout;
	bool begun; /* authenticated */
	uint32_t serial;
	unsigned waiting; /* calls without a reply */
	struct buf in, out, messages; /* messages: wait for the authentication's end */
	struct err err; /* the first one */
};

/* --- writing -------------------------------------------------------------------------------- */

void
dbus_align(struct buf *b, size_t to)
{
	while (buf_len(b) % to != 0)
		buf_add(b, "", 1);
}

void
dbus_put_u16(struct buf *b, uint16_t n)
{
	dbus_align(b, sizeof n);
	buf_add(b, &n, sizeof n);
}

void
dbus_put_u32(struct buf *b, uint32_t n)
{
	dbus_align(b, sizeof n);
	buf_add(b, &n, sizeof n);
}

void
dbus_put_string(struct buf *b, const char *s)
{
	dbus_put_u32(b, (uint32_t)strlen(s));
	buf_add(b, s, strlen(s) + 1);
}

struct dbus_array
dbus_array_begin(struct buf *b, size_t align)
{
	struct dbus_array a;

	dbus_put_u32(b, 0);
	a.length_at = buf_len(b) - sizeof(uint32_t);
	dbus_align(b, align);
	a.start = buf_len(b);
	return a;
}

/* The padding in front of the first element does not count. */
void
dbus_array_end(struct buf *b, const struct dbus_array *a)
{
	uint32_t len = (uint32_t)(buf_len(b) - a->start);

	memcpy(buf_at(b) + a->length_at, &len, sizeof len);
}

/* A struct of the field's code and a variant, whose signature is one letter. */
static void
dbus_put_field(struct buf *b, uint8_t code, char type, const char *value)
{
	const char head[] = {(char)code, 1, type, '\0'};

	dbus_align(b, 8);
	buf_add(b, head, sizeof head);
	if (type == 'g') {
		buf_add(b, &(uint8_t){(uint8_t)strlen(value)}, 1);
		buf_add(b, value, strlen(value) + 1);
	} else {
		dbus_put_string(b, value);
	}
}

struct dbus_target {
	const char *destination, *object, *interface;
};

static void
dbus_put_call(struct dbus *d, const struct dbus_target *to, const char *method,
	const char *signature, const struct buf *args)
{
	const char head[] = {ORDER, TYPE_CALL, NO_AUTO_START, VERSION};
	auto_buf struct buf b;
	struct dbus_array fields;

	buf_init(&b, BUF_UNLIMITED);
	buf_add(&b, head, sizeof head);
	dbus_put_u32(&b, args != NULL ? (uint32_t)buf_len(args) : 0);
	dbus_put_u32(&b, ++d->serial);
	fields = dbus_array_begin(&b, 8);
	dbus_put_field(&b, FIELD_PATH, 'o', to->object);
	dbus_put_field(&b, FIELD_INTERFACE, 's', to->interface);
	dbus_put_field(&b, FIELD_MEMBER, 's', method);
	dbus_put_field(&b, FIELD_DESTINATION, 's', to->destination);
	if (args != NULL)
		dbus_put_field(&b, FIELD_SIGNATURE, 'g', signature);
	dbus_array_end(&b, &fields);
	dbus_align(&b, 8);
	buf_add(&d->messages, buf_at(&b), buf_len(&b));
	if (args != NULL)
		buf_add(&d->messages, buf_at(args), buf_len(args));
	d->waiting++;
}

void
dbus_call(struct dbus *d, const char *method, const char *signature, const struct buf *args)
{
	const struct dbus_target to = {d->destination, d->object, d->interface};

	dbus_put_call(d, &to, method, signature, args);
}

/* --- reading -------------------------------------------------------------------------------- */

static void
dbus_take_message(struct dbus *d, const struct dbus_message *m)
{
	if (!m->reply)
		return;
	d->waiting -= d->waiting > 0;
	if (m->error && d->err.code == 0)
		err_set(&d->err, m->absent ? ESRCH : EREMOTEIO, "%.200s", m->text);
}

/* -EBADMSG: what is no message. */
static int
dbus_take_messages(struct dbus *d)
{
	struct dbus_message m;
	int rc;

	while ((rc = dbus_message_read(&m, buf_at(&d->in), buf_len(&d->in))) > 0) {
		dbus_take_message(d, &m);
		buf_consume(&d->in, m.size);
	}
	return rc;
}

/* --- connection ----------------------------------------------------------------------------- */

static void
dbus_end(struct dbus *d)
{
	watch_stop(&d->watch);
	timer_cancel(d->timeout);
	d->config.done(d->config.arg, d->err.code != 0 ? &d->err : NULL);
}

/* "OK GUID" is what the bus says to AUTH (AUTHENTICATION PROTOCOL). */
static int
dbus_take_auth(struct dbus *d)
{
	const char *line = buf_str(&d->in), *end = strstr(line, "\r\n");

	if (end == NULL)
		return buf_len(&d->in) > LINE_MAX_BYTES ? -EBADMSG : 0;
	if (strncmp(line, "OK ", 3) != 0)
		return -EACCES;
	buf_consume(&d->in, (size_t)(end + 2 - line));
	buf_adds(&d->out, "BEGIN\r\n");
	buf_add(&d->out, buf_at(&d->messages), buf_len(&d->messages));
	d->begun = true;
	return 0;
}

static int
dbus_flush(struct dbus *d)
{
	while (buf_len(&d->out) > 0) {
		ssize_t n = buf_write(&d->out, d->fd);

		if (n == -EAGAIN)
			break;
		if (n < 0)
			return (int)n;
	}
	watch_set(d->watch, WATCH_READ | (buf_len(&d->out) > 0 ? WATCH_WRITE : 0));
	return 0;
}

static int
dbus_fill(struct dbus *d)
{
	ssize_t n = buf_read(&d->in, d->fd, 16384);

	if (n == 0)
		return -ECONNRESET;
	return n < 0 && n != -EAGAIN ? (int)n : 0;
}

static void
on_dbus(void *arg, int fd, unsigned events)
{
	struct dbus *d = arg;
	int rc = dbus_fill(d);

	(void)fd;
	(void)events;
	if (rc == 0 && !d->begun)
		rc = dbus_take_auth(d);
	if (rc == 0 && d->begun)
		rc = dbus_take_messages(d);
	if (rc == 0 && d->waiting > 0)
		rc = dbus_flush(d);
	if (rc < 0 && d->err.code == 0)
		err_set(&d->err, rc, "D-Bus: %s", strerror(-rc));
	if (rc < 0 || d->waiting == 0)
		dbus_end(d);
}

static void
on_dbus_timeout(void *arg)
{
	struct dbus *d = arg;

	if (d->err.code == 0)
		err_set(&d->err, ETIMEDOUT, "no answer over D-Bus");
	dbus_end(d);
}

/* The user's number in decimal, each digit as two of hexadecimal. */
static void
dbus_put_auth(struct buf *out)
{
	char uid[16];

	snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
	buf_add(out, "", 1);
	buf_adds(out, "AUTH EXTERNAL ");
	for (const char *c = uid; *c != '\0'; c++)
		buf_printf(out, "%02x", (unsigned)*c);
	buf_adds(out, "\r\n");
}

int
dbus_open(struct dbus **out, const struct dbus_config *config, struct err *err)
{
	const struct dbus_target bus = {BUS, "/org/freedesktop/DBus", BUS};
	const char *path = config->bus != NULL ? config->bus : SYSTEM_BUS;
	auto_free char *text = xasprintf("unix:%s", path);
	struct addr a;
	struct dbus *d;
	int fd, rc = addr_parse(&a, text, 0, err);

	if (rc < 0)
		return rc;
	rc = sock_connect(&a, 0, &fd);
	if (rc < 0)
		return err_set(
			err, rc, "there is no system bus of D-Bus: %s: %s", path, strerror(-rc));
	d = xcalloc(1, sizeof *d);
	d->config = *config;
	d->destination = xstrdup(config->destination);
	d->object = xstrdup(config->object);
	d->interface = xstrdup(config->interface);
	d->fd = fd;
	buf_init(&d->in, DBUS_MESSAGE_MAX);
	buf_init(&d->out, BUF_UNLIMITED);
	buf_init(&d->messages, BUF_UNLIMITED);
	dbus_put_auth(&d->out);
	dbus_put_call(d, &bus, "Hello", "", NULL);
	d->watch = watch_start(config->loop, fd, WATCH_READ | WATCH_WRITE, on_dbus, d);
	d->timeout = timer_new(config->loop, on_dbus_timeout, d);
	timer_start(d->timeout, config->timeout_ms, 0);
	*out = d;
	return 0;
}

void
dbus_close(struct dbus **out)
{
	struct dbus *d = take_ptr(out);

	if (d == NULL)
		return;
	watch_stop(&d->watch);
	timer_free(&d->timeout);
	close(d->fd);
	buf_fini(&d->in);
	buf_fini(&d->out);
	buf_fini(&d->messages);
	free(d->destination);
	free(d->object);
	free(d->interface);
	free(d);
}
