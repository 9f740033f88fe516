{{/* The objects of a manifest: (list $ FILE), as YAML {objects: [...]}, in the release's namespace. */}}
{{- define "edgeway.manifest" -}}
{{- $root := index . 0 -}}
{{- $file := printf "kubernetes/%s" (index . 1) -}}
{{- $text := $root.Files.Get $file | required (printf "the chart has no %s: package it with what its link `kubernetes` leads to" $file) -}}
{{- $text = regexReplaceAll "(?m)^( *namespace:) edgeway$" $text (printf "${1} %s" $root.Release.Namespace) -}}
{{- $objects := list -}}
{{- range splitList "\n---\n" $text -}}{{- $objects = append $objects (fromYaml .) -}}{{- end -}}
{{- toYaml (dict "objects" $objects) -}}
{{- end -}}

{{/* One of them: (list $ FILE KIND NAME), as YAML. */}}
{{- define "edgeway.object" -}}
{{- $kind := index . 2 -}}
{{- $name := index . 3 -}}
{{- range (include "edgeway.manifest" . | fromYaml).objects -}}
{{- if and (eq .kind $kind) (eq .metadata.name $name) -}}{{- toYaml . -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* (list INTO FROM): changes the map INTO. Maps are merged, null takes a key away, all else takes the place of what was there. */}}
{{- define "edgeway.merge" -}}
{{- $into := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $into $key)) -}}{{- include "edgeway.merge" (list (get $into $key) $value) -}}
{{- else if kindIs "invalid" $value -}}{{- $_ := unset $into $key -}}
{{- else if ne (toJson $value) "{}" -}}{{- $_ := set $into $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (list $ WORKLOAD VALUES CONFIG): changes a Deployment or DaemonSet as the values of `hub` or `agent` say. */}}
{{- define "edgeway.workload" -}}
{{- $root := index . 0 -}}
{{- $workload := index . 1 -}}
{{- $values := index . 2 -}}
{{- $template := $workload.spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := first $pod.containers -}}
{{- $image := $root.Values.image -}}
{{- $_ := set $container "image" (ternary (printf "%s@%s" $image.repository $image.digest) (printf "%s:%s" $image.repository ($image.tag | default $root.Chart.AppVersion)) (ne $image.digest "")) -}}
{{- with $image.pullPolicy -}}{{- $_ := set $container "imagePullPolicy" . -}}{{- end -}}
{{- with $image.pullSecrets -}}{{- $_ := set $pod "imagePullSecrets" . -}}{{- end -}}
{{- range $i, $mount := $values.secretMounts -}}
{{- include "edgeway.mount" (list $pod (printf "secret-%d" $i) $mount.name $mount.mountPath) -}}
{{- end -}}
{{- with $values.env -}}{{- $_ := set $container "env" (concat ($container.env | default list) .) -}}{{- end -}}
{{- $of := pick $values "resources" "securityContext" -}}
{{- include "edgeway.merge" (list $container $of) -}}
{{- $of = pick $values "affinity" "nodeSelector" -}}
{{- range $key := list "tolerations" "topologySpreadConstraints" "priorityClassName" -}}
{{- if not (kindIs "invalid" (index $values $key)) -}}{{- $_ := set $of $key (index $values $key) -}}{{- end -}}
{{- end -}}
{{- include "edgeway.merge" (list $pod $of) -}}
{{- include "edgeway.merge" (list $pod.securityContext $values.podSecurityContext) -}}
{{- include "edgeway.merge" (list $template.metadata.labels $values.podLabels) -}}
{{- $checksum := dict "checksum/config" (index . 3 | sha256sum) -}}
{{- $_ := set $template.metadata "annotations" (merge $checksum $values.podAnnotations) -}}
{{- end -}}

{{- define "edgeway.host" -}}
{{- .Values.host | required "host: the name by which edge nodes find the hub is needed, such as hub.example.org" -}}
{{- end -}}

{{/* What the configuration files hold, as YAML. */}}
{{- define "edgeway.hub-config" -}}
{{- $config := deepCopy .Values.hub.config -}}
{{- $tls := $config.tls | default dict -}}
{{- if not (or $tls.names $tls.cert) -}}{{- $_ := set $tls "names" (list (include "edgeway.host" .)) -}}{{- end -}}
{{- if eq ($tls.service | default "") "edgeway/edgeway-hub" -}}{{- $_ := set $tls "service" (printf "%s/edgeway-hub" .Release.Namespace) -}}{{- end -}}
{{- if .Values.web.enabled -}}
{{- if not (or $config.access .Values.web.clientCASecret) -}}{{- fail "hub.config.access: a rule with to: [\"hub:web\"] says who may see the page of web.enabled; or web.clientCASecret" -}}{{- end -}}
{{- $web := dict "listen" "0.0.0.0:10014" "cert" "/run/secrets/edgeway-web/tls.crt" "key" "/run/secrets/edgeway-web/tls.key" -}}
{{- with .Values.web.names -}}{{- $_ := set $web "names" . -}}{{- end -}}
{{- if .Values.web.clientCASecret -}}{{- $_ := set $web "clientCA" "/run/secrets/edgeway-web-ca/ca.crt" -}}{{- end -}}
{{- $_ := set $config "web" (merge $web ($config.web | default dict)) -}}
{{- end -}}
{{- toYaml (set $config "tls" $tls) -}}
{{- end -}}

{{- define "edgeway.agent-config" -}}
{{- $config := deepCopy .Values.agent.config -}}
{{- $hub := $config.hub | default dict -}}
{{- if not $hub.url -}}
{{- $_ := set $hub "url" (printf "wss://%s:%d" (include "edgeway.host" .) (ternary 443 .Values.service.port .Values.ingress.enabled | int)) -}}
{{- end -}}
{{- if .Values.ingress.enabled -}}
{{- $_ := set $config "tunnel" (merge ($config.tunnel | default dict) (dict "carrier" "websocket")) -}}
{{- end -}}
{{- $_ := set $config "hub" $hub -}}
{{- include "edgeway.name-secrets" (list $config .Values.agent.secrets) -}}
{{- toYaml $config -}}
{{- end -}}
