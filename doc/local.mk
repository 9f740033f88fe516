dist_man_MANS += doc/edgeway.yaml.5 doc/edgeway-agent.8 doc/edgewayctl.8 doc/edgeway-metrics.7 doc/edgeway-protocol.7
if HUB
dist_man_MANS += doc/edgeway-hub.8
endif
EXTRA_DIST += doc/protocol.md doc/structure.md doc/getting-started.md doc/operations.md doc/security.md doc/migration.md doc/distributions.md doc/releases.md \
	doc/features.md doc/glossary.md doc/edgeway.svg doc/states/hub-client.dot doc/states/connect.dot \
	doc/states/tunnel-client.dot doc/states/request.dot doc/states/session.dot doc/states/node-peer.dot doc/states/hole-punch.dot
