{{/* Settings of Pods for the object store of storage.url. With a volume each of these renders nothing, or {}. */}}

{{/*
Environment variables of clients of the store, as a YAML map. Takes $.
obstore and pyarrow take authorities from SSL_CERT_FILE and SSL_CERT_DIR, and with the one set read only what is
named: the image's own are named, too. boto3 takes them from AWS_CA_BUNDLE alone.
*/}}
{{- define "trainshed.storeEnv" -}}
{{- $storage := .Values.storage -}}
{{- $env := dict -}}
{{- if hasPrefix "s3://" $storage.url -}}
{{- $_ := set $env "AWS_VIRTUAL_HOSTED_STYLE_REQUEST" (toString $storage.virtualHosted) -}}
{{- with $storage.endpoint -}}
{{- $_ := set $env "AWS_ENDPOINT_URL" (trimSuffix "/" .) -}}
{{- end -}}
{{- if $storage.allowHttp -}}
{{- $_ := set $env "AWS_ALLOW_HTTP" "true" -}}
{{- end -}}
{{- with $storage.region -}}
{{- /* boto3 reads only the second variable. */ -}}
{{- $_ := set $env "AWS_REGION" . -}}
{{- $_ := set $env "AWS_DEFAULT_REGION" . -}}
{{- end -}}
{{- if ne $storage.identity "node" -}}
{{- /* Clients without keys ask the node's metadata service. obstore ignores the first variable, and the second points nowhere. */ -}}
{{- $_ := set $env "AWS_EC2_METADATA_DISABLED" "true" -}}
{{- $_ := set $env "AWS_METADATA_ENDPOINT" "http://127.0.0.1:1" -}}
{{- end -}}
{{- end -}}
{{- if include "trainshed.caVolume" . -}}
{{- $_ := set $env "SSL_CERT_FILE" "/etc/trainshed/storage-ca/ca.crt" -}}
{{- $_ := set $env "SSL_CERT_DIR" "/etc/ssl/certs" -}}
{{- $_ := set $env "AWS_CA_BUNDLE" "/etc/trainshed/storage-ca/ca.crt" -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{/* Source of the store's credentials, as a list; empty with a cloud identity. Takes $. */}}
{{- define "trainshed.storeEnvFrom" -}}
{{- with .Values.storage.credentialsSecret -}}
- secretRef: {name: {{ . | quote }}}
{{- end -}}
{{- end -}}

{{/* The volume with the certificates of storage.caBundle, without its name. Takes $. */}}
{{- define "trainshed.caVolume" -}}
{{- $bundle := .Values.storage.caBundle -}}
{{- $items := list (dict "key" $bundle.key "path" "ca.crt") -}}
{{- if $bundle.configMap -}}
{{- dict "configMap" (dict "name" $bundle.configMap "items" $items) | toYaml -}}
{{- else if $bundle.secret -}}
{{- dict "secret" (dict "secretName" $bundle.secret "items" $items) | toYaml -}}
{{- end -}}
{{- end -}}

{{/* Labels of Pods that get a cloud identity. Takes $. */}}
{{- define "trainshed.identityLabels" -}}
{{- if eq .Values.storage.identity "azure" -}}
azure.workload.identity/use: "true"
{{- end -}}
{{- end -}}

{{/* {host, port} of storage.endpoint; an IPv6 host keeps its brackets. Takes $. */}}
{{- define "trainshed.endpoint" -}}
{{- $endpoint := lower .Values.storage.endpoint -}}
{{- $authority := regexReplaceAll "^https?://([^/]*).*$" $endpoint "${1}" -}}
{{- $port := regexFind ":[0-9]+$" $authority -}}
{{- dict
  "host" (trimSuffix $port $authority)
  "port" (trimPrefix ":" $port | default (hasPrefix "http:" $endpoint | ternary "80" "443") | int)
  | toYaml -}}
{{- end -}}

{{/* Peers of the egress rule to the store, as a list; empty if they cannot be derived. Takes $. */}}
{{- define "trainshed.storePeers" -}}
{{- $host := (include "trainshed.endpoint" . | fromYaml).host -}}
{{- if .Values.networkPolicy.storage.to -}}
{{- toYaml .Values.networkPolicy.storage.to -}}
{{- else if not .Values.storage.endpoint -}}
{{- /* A cloud's store has too many addresses to list. The excluded ones are the node's metadata service. */ -}}
- ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}
- ipBlock: {cidr: "::/0", except: ["fe80::/10", "fd00:ec2::/32"]}
{{- else if regexMatch "^[0-9.]+$" $host -}}
- ipBlock: {cidr: {{ printf "%s/32" $host | quote }}}
{{- else if hasPrefix "[" $host -}}
- ipBlock: {cidr: {{ printf "%s/128" (trimAll "[]" $host) | quote }}}
{{- end -}}
{{- end -}}

{{/* Egress to the store, and to the service that issues its credentials. Takes $. */}}
{{- define "trainshed.storeEgress" -}}
{{- $port := (include "trainshed.endpoint" . | fromYaml).port -}}
{{- $identity := .Values.storage.identity -}}
- to:
    {{- include "trainshed.storePeers" . | nindent 4 }}
  ports:
    {{- range .Values.networkPolicy.storage.ports | default (list $port) }}
    - {protocol: TCP, port: {{ int . }}}
    {{- end }}
{{- if eq $identity "eks-pod-identity" }}
- to:
    - ipBlock: {cidr: 169.254.170.23/32}
    - ipBlock: {cidr: "fd00:ec2::23/128"}
  ports:
    - {protocol: TCP, port: 80}
{{- else if eq $identity "gke" }}
# GKE's metadata server for Pods, with and without Dataplane V2.
- to:
    - ipBlock: {cidr: 169.254.169.254/32}
  ports:
    - {protocol: TCP, port: 80}
    - {protocol: TCP, port: 8080}
- to:
    - ipBlock: {cidr: 169.254.169.252/32}
  ports:
    - {protocol: TCP, port: 987}
    - {protocol: TCP, port: 988}
{{- else if eq $identity "node" }}
- to:
    - ipBlock: {cidr: 169.254.169.254/32}
    - ipBlock: {cidr: "fd00:ec2::254/128"}
  ports:
    - {protocol: TCP, port: 80}
{{- end }}
{{- end -}}
