/*
 * Reads a message of D-Bus (the D-Bus specification, "Message Protocol"), as far as dbus.h needs
 * it: whether it is a reply, and what an error says. Pure; any bytes are allowed. The texts lie
 * within the message.
 *
 *	while ((rc = dbus_message_read(&m, buf_at(&in), buf_len(&in))) > 0)
 *		buf_consume(&in, m.size);
 */
#ifndef EDGEWAY_BASE_OS_DBUS_MESSAGE_H
#define EDGEWAY_BASE_OS_DBUS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

enum { DBUS_MESSAGE_MAX = 256 * 1024 };

struct dbus_message {
	size_t size; /* of the whole message */
	bool reply; /* else another program's signal or call */
	bool error; /* the reply is one */
	bool absent; /* the error: nobody has the destination's name */
	const char *text; /* of the error, else its name; "" */
};

/* 1: it is whole; 0: not yet; -EBADMSG: no message, or larger than DBUS_MESSAGE_MAX. */
int dbus_message_read(struct dbus_message *m, const char *at, size_t len);

#endif
