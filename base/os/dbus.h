/*
 * Method calls over the system bus (the D-Bus specification, "Message Protocol" and "Authentication
 * Protocol"): a few calls to one object, written together on a connection of their own, which ends
 * with the last reply. No library: this is all that the agent needs of D-Bus. The called service is
 * not started for it. Used on the loop's thread; never blocks.
 *
 *	rc = dbus_open(&bus, &config, &err);	// -ENOENT, -ECONNREFUSED: there is no bus
 *	buf_init(&args, BUF_UNLIMITED);
 *	dbus_put_u32(&args, 3);
 *	dbus_call(bus, "RevertLink", "i", &args);
 *	...					// config.done is called once, later
 *	dbus_close(&bus);			// also from done, and before it
 */
#ifndef EDGEWAY_BASE_OS_DBUS_H
#define EDGEWAY_BASE_OS_DBUS_H

#include "base/core/buf.h"
#include "base/core/loop.h"

struct dbus;

/* err NULL: every call was answered without an error. Otherwise the first error; its code is
 * ESRCH: nobody has the destination's name; EREMOTEIO: the service refused, in its own words;
 * another: the connection. */
typedef void dbus_done_fn(void *arg, const struct err *err);

struct dbus_config {
	struct loop *loop;
	const char *bus; /* path of the socket; NULL: the system bus */
	const char *destination, *object, *interface;
	uint64_t timeout_ms;
	dbus_done_fn *done;
	void *arg;
};

int dbus_open(struct dbus **d, const struct dbus_config *config, struct err *err);
/* All calls belong before the loop's next turn. args: in the wire format, NULL: none. */
void dbus_call(struct dbus *d, const char *method, const char *signature, const struct buf *args);
void dbus_close(struct dbus **d);

/* Arguments are aligned relative to the buffer's begin. */
void dbus_align(struct buf *b, size_t to);
void dbus_put_u16(struct buf *b, uint16_t n);
void dbus_put_u32(struct buf *b, uint32_t n); /* also i and b */
void dbus_put_string(struct buf *b, const char *s);
/* Between both calls the elements are appended, each aligned as `align` says. */
struct dbus_array {
	size_t length_at, start;
};
struct dbus_array dbus_array_begin(struct buf *b, size_t align);
void dbus_array_end(struct buf *b, const struct dbus_array *array);

#endif
