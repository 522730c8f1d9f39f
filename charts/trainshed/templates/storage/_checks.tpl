{{/* Rules of validate.yaml for storage: one place for runs, a valid address, credentials. */}}

{{/* Takes $. */}}
{{- define "trainshed.checkStorage" -}}
{{- if .Values.storage.url -}}
{{- include "trainshed.checkUrl" . -}}
{{- include "trainshed.checkNoVolume" . -}}
{{- include "trainshed.checkEndpoint" . -}}
{{- include "trainshed.checkIdentity" . -}}
{{- include "trainshed.checkStorePolicy" . -}}
{{- else -}}
{{- include "trainshed.checkVolume" . -}}
{{- include "trainshed.checkNoStore" . -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.checkUrl" -}}
{{- $url := .Values.storage.url -}}
{{- $forms := list
  "s3://[a-z0-9][a-z0-9._-]+"
  "gs://[a-z0-9][a-z0-9._-]+"
  "abfss?://[a-z0-9$][a-z0-9-]*@[a-z0-9]+(\\.dfs\\.[a-z.]+)?"
-}}
{{- if not (regexMatch (printf "^(%s)(/[A-Za-z0-9._=+@-]+)*/?$" (join "|" $forms)) $url) -}}
{{- fail (printf "storage.url: got %q; expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX, without keys or options. Correct the address" $url) -}}
{{- end -}}
{{- if regexMatch "/\\.\\.?(/|$)" $url -}}
{{- fail (printf "storage.url: got %q; expected a path without . and .., which object stores do not have. Write the full path" $url) -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.checkNoVolume" -}}
{{- $storage := .Values.storage -}}
{{- $claim := dict "name" "trainshed-storage" "size" "" "accessModes" list "storageClass" "" -}}
{{- $both := "storage.url: got an address, and storage.%s is set; expected one of them, because runs are stored in one place. Remove one" -}}
{{- if $storage.existingClaim -}}
{{- fail (printf $both "existingClaim") -}}
{{- end -}}
{{- if ne $storage.mountPath "/mnt/trainshed" -}}
{{- fail (printf $both "mountPath") -}}
{{- end -}}
{{- range $field, $default := $claim -}}
{{- if ne (toJson (index $storage.claim $field)) (toJson $default) -}}
{{- fail (printf $both (printf "claim.%s" $field)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.checkEndpoint" -}}
{{- $storage := .Values.storage -}}
{{- $endpoint := $storage.endpoint -}}
{{- if not (hasPrefix "s3://" $storage.url) -}}
{{- range $field := list "endpoint" "allowHttp" "region" "virtualHosted" -}}
{{- if index $storage $field -}}
{{- fail (printf "storage.%s: got a value, and storage.url is %s; expected an s3:// address, because only S3 uses it. Remove it" $field $storage.url) -}}
{{- end -}}
{{- end -}}
{{- else if not $endpoint -}}
{{- if not $storage.region -}}
{{- fail "storage.region: got nothing; expected the region of the bucket, such as eu-central-1. Set it, or storage.endpoint for a store that is not Amazon's" -}}
{{- end -}}
{{- else -}}
{{- if not (regexMatch "^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?(/[A-Za-z0-9._~-]+)*/?$" $endpoint) -}}
{{- fail (printf "storage.endpoint: got %q; expected https://HOST or https://HOST:PORT, without keys, options or the bucket. Correct the address" $endpoint) -}}
{{- end -}}
{{- if and (hasPrefix "http:" $endpoint) (not $storage.allowHttp) -}}
{{- fail (printf "storage.endpoint: got %s; expected https://, because anyone on the network path can read and change unencrypted data. Use https://, or set storage.allowHttp=true" $endpoint) -}}
{{- end -}}
{{- include "trainshed.checkEndpointHost" . -}}
{{- end -}}
{{- with $storage.caBundle -}}
{{- if and .configMap .secret -}}
{{- fail "storage.caBundle: got both configMap and secret; expected one of them. Remove one" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Rejects addresses of the Pod and of its node's metadata service, and unusual spellings of addresses. */}}
{{- define "trainshed.checkEndpointHost" -}}
{{- $endpoint := .Values.storage.endpoint -}}
{{- $host := (include "trainshed.endpoint" . | fromYaml).host -}}
{{- $byte := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" -}}
{{- $is_number := regexMatch "(^|\\.)([0-9]+|0x[0-9a-f]*)$" $host -}}
{{- if and $is_number (not (regexMatch (printf "^%s(\\.%s){3}$" $byte $byte) $host)) -}}
{{- fail (printf "storage.endpoint: got %s; expected a host name, or an address of four numbers from 0 to 255. Correct the host" $endpoint) -}}
{{- end -}}
{{- $own := list
  "169\\.254\\..*" "127\\..*" "0\\..*" "168\\.63\\.129\\.16" "100\\.100\\.100\\.200"
  "(.*\\.)?localhost" "metadata(\\.google\\.internal|\\.goog)?" "instance-data(\\..*)?"
  "\\[::.*" "\\[0*:.*" "\\[fe[89ab].*" "\\[fd00:0?ec2:.*"
-}}
{{- if regexMatch (printf "^(%s)$" (join "|" $own)) $host -}}
{{- fail (printf "storage.endpoint: got %s, an address of the Pod or its node; expected an object store. Correct the host" $endpoint) -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.checkIdentity" -}}
{{- $storage := .Values.storage -}}
{{- $identity := $storage.identity -}}
{{- $scheme := regexFind "^(s3|gs|abfs)" $storage.url -}}
{{- $wants := dict "irsa" "s3" "eks-pod-identity" "s3" "gke" "gs" "azure" "abfs" -}}
{{- $annotations := dict "irsa" "eks.amazonaws.com/role-arn" "azure" "azure.workload.identity/client-id" -}}
{{- if and $storage.credentialsSecret $identity -}}
{{- fail "storage.identity: got a value, and storage.credentialsSecret is set; expected one of them, because clients differ in which one they use. Remove one" -}}
{{- end -}}
{{- if not (or $storage.credentialsSecret $identity) -}}
{{- fail (printf "storage.url: got %s without credentials; expected a Secret or an identity for it. Set storage.credentialsSecret or storage.identity" $storage.url) -}}
{{- end -}}
{{- if and (hasKey $wants $identity) (ne (get $wants $identity) $scheme) -}}
{{- fail (printf "storage.identity: got %s, which is for %s:// addresses; expected an identity for storage.url %s. Correct either" $identity (get $wants $identity) $storage.url) -}}
{{- end -}}
{{- $annotation := get $annotations $identity -}}
{{- if and $annotation (not (get .Values.serviceAccount.annotations $annotation)) -}}
{{- fail (printf "storage.identity: got %s without its annotation; expected serviceAccount.annotations.%s, by which the cloud identifies Ray's Pods. Set it" $identity $annotation) -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.checkStorePolicy" -}}
{{- if .Values.networkPolicy.enabled -}}
{{- if not (include "trainshed.storePeers" .) -}}
{{- fail (printf "networkPolicy.storage.to: got nothing; expected the addresses of %s, because NetworkPolicies cannot use host names. Set it, such as [{ipBlock: {cidr: 10.1.2.3/32}}]" .Values.storage.endpoint) -}}
{{- end -}}
{{- range .Values.networkPolicy.storage.to -}}
{{- $block := default dict .ipBlock -}}
{{- $is_all := hasSuffix "/0" (toString $block.cidr) -}}
{{- $is_held := regexMatch "\"(169\\.254\\.0\\.0/16|169\\.254\\.169\\.254/32|fd00:ec2::/32|fd00:ec2::254/128)\"" (toJson $block.except) -}}
{{- if or (hasPrefix "169.254." (toString $block.cidr)) (and $is_all (not $is_held)) -}}
{{- fail (printf "networkPolicy.storage.to: got %s, which includes the node's metadata service; expected the store's addresses. Exclude 169.254.0.0/16 (for IPv6 fd00:ec2::/32) by `except`" $block.cidr) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.checkVolume" -}}
{{- $storage := .Values.storage -}}
{{- $claim := $storage.claim -}}
{{- include "trainshed.checkQuantity" (list "storage.claim.size" (include "trainshed.claim" . | fromYaml).size) -}}
{{- $is_named := or $storage.existingClaim $claim.storageClass $claim.accessModes -}}
{{- if and .Release.IsInstall (ne .Values.preset "laptop") (not $is_named) -}}
{{- fail (printf "storage: got neither a bucket nor a volume; expected one that all nodes reach, because runs are stored there. Set storage.url=s3://BUCKET/PREFIX (or gs://, abfs://), or storage.existingClaim, or storage.claim.storageClass to a class with ReadWriteMany. On one node without GPUs set preset=laptop") -}}
{{- end -}}
{{- if not (regexMatch "^/[^ ]*[^/ ]$" $storage.mountPath) -}}
{{- fail (printf "storage.mountPath: got %q; expected an absolute path. Use one, such as /mnt/trainshed" $storage.mountPath) -}}
{{- end -}}
{{- range list "/tmp" "/home/ray" "/dev" "/etc" "/opt" "/proc" "/sys" "/usr" "/bin" "/lib" -}}
{{- if or (eq $storage.mountPath .) (hasPrefix (printf "%s/" .) $storage.mountPath) -}}
{{- fail (printf "storage.mountPath: got %s; expected a path outside the image's %s. Use another one, such as /mnt/trainshed" $storage.mountPath .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.checkNoStore" -}}
{{- $storage := .Values.storage -}}
{{- $alone := "%s: got a value, and storage.url is empty; expected it only with an object store. Set storage.url, or remove it" -}}
{{- range $field := list "endpoint" "allowHttp" "region" "virtualHosted" "credentialsSecret" "identity" -}}
{{- if index $storage $field -}}
{{- fail (printf $alone (printf "storage.%s" $field)) -}}
{{- end -}}
{{- end -}}
{{- range $field := list "configMap" "secret" -}}
{{- if index $storage.caBundle $field -}}
{{- fail (printf $alone (printf "storage.caBundle.%s" $field)) -}}
{{- end -}}
{{- end -}}
{{- range $field := list "to" "ports" -}}
{{- if index $.Values.networkPolicy.storage $field -}}
{{- fail (printf $alone (printf "networkPolicy.storage.%s" $field)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
