#include "model/check.h"

#include <arpa/inet.h>
#include <string.h>

#include "model/mesh.h"
#include "model/pod_name.h"

#define TOKEN_MARKS "!#$%&'*+-.^_`|~"

static bool
check_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool
check_label(const char *text, size_t len)
{
	if (len == 0 || len > MESH_NAME_MAX || !check_alnum(text[0]) || !check_alnum(text[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!check_alnum(text[i]) && text[i] != '-')
			return false;
	return true;
}

bool
check_service(const char *text, size_t len)
{
	const char *dot = memchr(text, '.', len);
	size_t first = dot != NULL ? (size_t)(dot - text) : len;

	return (check_label(text, first) &&
		       (dot == NULL || check_label(dot + 1, len - first - 1))) ||
		pod_name_is(text, len);
}

/* Unlike DNS, Kubernetes does not limit the labels of a subdomain to 63 bytes. */
bool
check_subdomain(const char *text, size_t len)
{
	if (len == 0 || len > MESH_NODE_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool edge = i == 0 || i == len - 1 || text[i - 1] == '.' || text[i + 1] == '.';

		if (check_alnum(text[i]) || (!edge && (text[i] == '-')))
			continue;
		if (text[i] != '.' || edge)
			return false;
	}
	return true;
}

bool
check_word(const char *text, size_t len)
{
	if (len > MESH_NODE_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\')
			return false;
	return true;
}

bool
check_token(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!check_alnum(text[i]) && !(text[i] >= 'A' && text[i] <= 'Z') &&
			(text[i] == '\0' || strchr(TOKEN_MARKS, text[i]) == NULL))
			return false;
	return len > 0 && len <= MESH_TOKEN_MAX;
}

bool
check_path(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return len > 0 && len <= MESH_NODE_MAX && text[0] == '/';
}

bool
ip_parse(const char *text, struct in6_addr *ip)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		memset(ip, 0, sizeof *ip);
		ip->s6_addr[10] = ip->s6_addr[11] = 0xff;
		memcpy(&ip->s6_addr[12], &v4, 4);
		return true;
	}
	return inet_pton(AF_INET6, text, ip) == 1;
}

bool
ip_net_parse(const char *text, struct in6_addr *prefix, unsigned *bits)
{
	const char *slash = strchr(text, '/');
	size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
	char host[INET6_ADDRSTRLEN] = "";
	unsigned most, n = 0;

	if (len >= sizeof host)
		return false;
	memcpy(host, text, len);
	if (!ip_parse(host, prefix))
		return false;
	most = strchr(host, ':') != NULL ? 128 : 32;
	*bits = 128;
	if (slash == NULL)
		return true;
	slash++;
	if (*slash == '\0' || strlen(slash) > 3 || slash[strspn(slash, "0123456789")] != '\0')
		return false;
	for (; *slash != '\0'; slash++)
		n = n * 10 + (unsigned)(*slash - '0');
	*bits = n + 128 - most;
	return n <= most;
}

bool
check_ip(const char *text, size_t len)
{
	char copy[INET6_ADDRSTRLEN];
	struct in6_addr ip;

	if (len == 0 || len >= sizeof copy)
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (!ip_parse(copy, &ip) || IN6_IS_ADDR_UNSPECIFIED(&ip))
		return false;
	return !IN6_IS_ADDR_V4MAPPED(&ip) || memcmp(&ip.s6_addr[12], "\0\0\0\0", 4) != 0;
}

bool
check_label_or_empty(const char *text, size_t len)
{
	return len == 0 || check_label(text, len);
}

bool
check_subdomain_or_empty(const char *text, size_t len)
{
	return len == 0 || check_subdomain(text, len);
}

bool
check_path_or_empty(const char *text, size_t len)
{
	return len == 0 || check_path(text, len);
}

bool
check_ip_or_empty(const char *text, size_t len)
{
	return len == 0 || check_ip(text, len);
}

uint32_t
ip_v4(const char *text)
{
	struct in_addr v4;

	return inet_pton(AF_INET, text, &v4) == 1 ? ntohl(v4.s_addr) : 0;
}

bool
ip_is_loopback(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 127);
}
