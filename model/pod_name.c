#include "model/pod_name.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* IPv6 whose text ends as IPv4's (::ffff:10.0.0.1, ::0.15.0.4): dashed, it would be another
 * address; no pod has one. */
static bool
is_mixed(const char *ip)
{
	return strchr(ip, '.') != NULL;
}

bool
pod_name_ip(const char *label, size_t len, char to[INET6_ADDRSTRLEN])
{
	static const char separators[] = ".:";
	char text[INET6_ADDRSTRLEN];
	struct in6_addr ip;

	if (len >= sizeof text)
		return false;
	for (int six = 0; six < 2; six++) {
		for (size_t i = 0; i < len; i++)
			text[i] = label[i] == '-' ? separators[six] : label[i];
		text[len] = '\0';
		if (memchr(label, '.', len) == NULL && memchr(label, ':', len) == NULL &&
			inet_pton(six ? AF_INET6 : AF_INET, text, &ip) == 1)
			return inet_ntop(six ? AF_INET6 : AF_INET, &ip, to, INET6_ADDRSTRLEN) !=
				NULL &&
				!(six && is_mixed(to));
	}
	return false;
}

bool
pod_name_of(char to[POD_NAME_MAX], const char *ip)
{
	bool six = strchr(ip, ':') != NULL;
	struct in6_addr at;

	if (inet_pton(six ? AF_INET6 : AF_INET, ip, &at) != 1 ||
		inet_ntop(six ? AF_INET6 : AF_INET, &at, to, INET6_ADDRSTRLEN) == NULL ||
		(six && is_mixed(to)))
		return false;
	for (char *p = to; *p != '\0'; p++)
		if (*p == '.' || *p == ':')
			*p = '-';
	strcat(to, POD_NAME_SUFFIX);
	return true;
}

bool
pod_name_is(const char *name, size_t len)
{
	const size_t suffix = sizeof POD_NAME_SUFFIX - 1;
	char ip[INET6_ADDRSTRLEN], canonical[POD_NAME_MAX];

	return len > suffix && memcmp(name + len - suffix, POD_NAME_SUFFIX, suffix) == 0 &&
		pod_name_ip(name, len - suffix, ip) && pod_name_of(canonical, ip) &&
		strlen(canonical) == len && memcmp(canonical, name, len) == 0;
}
