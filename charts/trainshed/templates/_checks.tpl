{{/* The longer rules of validate.yaml. Each renders nothing or fails with one sentence. */}}

{{/* Takes (list FIELD QUANTITY). */}}
{{- define "trainshed.checkQuantity" -}}
{{- $field := index . 0 -}}
{{- $text := toString (index . 1) -}}
{{- if not (regexMatch "^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$" $text) -}}
{{- fail (printf "%s: got %q; expected a Kubernetes quantity, such as 500m or 2 for CPUs and 16Gi for bytes. Correct it" $field $text) -}}
{{- end -}}
{{- end -}}

{{/* A quantity as a number, to compare. */}}
{{- define "trainshed.number" -}}
{{- $text := toString . -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18
  "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1.099511627776e12 "Pi" 1.125899906842624e15 "Ei" 1.152921504606847e18 -}}
{{- mulf (regexFind "^[0-9.]+" $text | float64) (index $units (regexFind "[A-Za-z]*$" $text)) -}}
{{- end -}}

{{/* Takes (list FIELD RESOURCES). */}}
{{- define "trainshed.checkResources" -}}
{{- $field := index . 0 -}}
{{- $resources := index . 1 -}}
{{- range $part, $amounts := $resources -}}
{{- range $name, $amount := $amounts -}}
{{- include "trainshed.checkQuantity" (list (printf "%s.%s.%s" $field $part $name) $amount) -}}
{{- end -}}
{{- end -}}
{{- range $name, $limit := $resources.limits -}}
{{- $request := get (default dict $resources.requests) $name -}}
{{- if and $request (gt (include "trainshed.number" $request | float64) (include "trainshed.number" $limit | float64)) -}}
{{- fail (printf "%s.requests.%s: got %v; expected at most its limit %v. Lower the request, or raise the limit" $field $name $request $limit) -}}
{{- end -}}
{{- end -}}
{{- if lt (include "trainshed.number" $resources.limits.memory | float64) 268435456.0 -}}
{{- fail (printf "%s.limits.memory: got %v; expected at least 256Mi, which Ray needs to start. Raise it, or add the missing unit" $field $resources.limits.memory) -}}
{{- end -}}
{{- end -}}

{{/* Takes (list $ FIELD ENV). */}}
{{- define "trainshed.checkEnv" -}}
{{- $root := index . 0 -}}
{{- $field := index . 1 -}}
{{- $secrets := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" "AWS_SESSION_TOKEN" "GOOGLE_SERVICE_ACCOUNT_KEY"
  "AZURE_STORAGE_ACCOUNT_KEY" "AZURE_STORAGE_SAS_KEY" "AZURE_STORAGE_SAS_TOKEN" "AZURE_CLIENT_SECRET" -}}
{{- range $name, $_ := index . 2 -}}
{{- if not (regexMatch "^[A-Za-z_][A-Za-z0-9_]*$" $name) -}}
{{- fail (printf "%s: got the name %q; expected letters, digits and underscores. Rename the variable" $field $name) -}}
{{- end -}}
{{- if or (hasPrefix "TRAINSHED_" $name) (hasPrefix "RAY_AUTH_" $name) (has $name (list "HOME" "RAY_ADDRESS" "RAY_START_ULIMIT_OPEN_FILES")) -}}
{{- fail (printf "%s: got %s, which the chart or KubeRay sets; expected another variable. Remove it" $field $name) -}}
{{- end -}}
{{- if has $name $secrets -}}
{{- fail (printf "%s: got %s, a secret that everyone who can read the release or a Pod would see; expected no secrets. Store it in a Secret, and name that in storage.credentialsSecret or ray.envFrom" $field $name) -}}
{{- end -}}
{{- $told := include "trainshed.toldByStorage" (list $root $name) -}}
{{- if $told -}}
{{- fail (printf "%s: got %s, and storage.url is set; expected the value %s, which Jobs and NetworkPolicies use as well. Set that instead" $field $name $told) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The value of storage that sets an environment variable; empty if none does. Takes (list $ NAME). */}}
{{- define "trainshed.toldByStorage" -}}
{{- $url := (index . 0).Values.storage.url -}}
{{- $fields := dict "SSL_CERT_FILE" "caBundle" "SSL_CERT_DIR" "caBundle" "AWS_CA_BUNDLE" "caBundle" -}}
{{- if hasPrefix "s3://" $url -}}
{{- range $name, $field := dict "AWS_ENDPOINT" "endpoint" "AWS_ENDPOINT_URL" "endpoint" "AWS_ENDPOINT_URL_S3" "endpoint"
  "AWS_ALLOW_HTTP" "allowHttp" "AWS_REGION" "region" "AWS_DEFAULT_REGION" "region"
  "AWS_VIRTUAL_HOSTED_STYLE_REQUEST" "virtualHosted" "AWS_EC2_METADATA_DISABLED" "identity"
  "AWS_METADATA_ENDPOINT" "identity" -}}
{{- $_ := set $fields $name $field -}}
{{- end -}}
{{- end -}}
{{- if and $url (hasKey $fields (index . 1)) -}}
{{- printf "storage.%s" (get $fields (index . 1)) -}}
{{- end -}}
{{- end -}}

{{/* Takes $. */}}
{{- define "trainshed.checkGroups" -}}
{{- $enabled := 0 -}}
{{- range $name := keys .Values.groups | sortAlpha -}}
{{- $field := printf "groups.%s" $name -}}
{{- $group := include "trainshed.group" (list $ $name) | fromYaml -}}
{{- if $group.enabled -}}
{{- $enabled = add1 $enabled -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$" $name) -}}
{{- fail (printf "groups: got the name %q; expected at most 30 lowercase letters, digits and dashes, beginning with a letter. Rename the group" $name) -}}
{{- end -}}
{{- if eq $name "head" -}}
{{- fail "groups: got the name \"head\", which Ray's head uses; expected another name. Rename the group" -}}
{{- end -}}
{{- include "trainshed.checkResources" (list (printf "%s.resources" $field) $group.resources) -}}
{{- include "trainshed.checkEnv" (list $ (printf "%s.env" $field) $group.env) -}}
{{- include "trainshed.checkRayPod" (list $ $field $group) -}}
{{- if hasKey (merge (dict) $group.resources.limits $group.resources.requests) $group.gpuResource -}}
{{- fail (printf "%s.resources: got %s, which %s.gpus sets; expected other resources. Set %s.gpus" $field $group.gpuResource $field $field) -}}
{{- end -}}
{{- if $.Values.autoscaling.enabled -}}
{{- if gt (int $group.minReplicas) (int $group.maxReplicas) -}}
{{- fail (printf "%s.minReplicas: got %d; expected at most maxReplicas %d. Lower it, or raise maxReplicas" $field (int $group.minReplicas) (int $group.maxReplicas)) -}}
{{- end -}}
{{- if or (lt (int $group.replicas) (int $group.minReplicas)) (gt (int $group.replicas) (int $group.maxReplicas)) -}}
{{- fail (printf "%s.replicas: got %d; expected minReplicas %d to maxReplicas %d, because autoscaling is enabled. Correct it" $field (int $group.replicas) (int $group.minReplicas) (int $group.maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $enabled -}}
{{- fail "groups: got no enabled group; expected one, because workers run in groups. Enable one" -}}
{{- end -}}
{{- end -}}

{{/* Takes (list FIELD IMAGE). */}}
{{- define "trainshed.checkImage" -}}
{{- $field := index . 0 -}}
{{- $image := index . 1 -}}
{{- if eq $image.tag "latest" -}}
{{- fail (printf "%s.tag: got \"latest\"; expected a version, because the image behind latest changes. Set a version, or leave it empty for the appVersion of the chart" $field) -}}
{{- end -}}
{{- if and $image.tag (not (regexMatch "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" $image.tag)) -}}
{{- fail (printf "%s.tag: got %q; expected at most 128 letters, digits, _, . and -. Correct it" $field $image.tag) -}}
{{- end -}}
{{- if and $image.repository (not (regexMatch "^[a-z0-9]+([._/-]+[a-z0-9]+)*$" $image.repository)) -}}
{{- fail (printf "%s.repository: got %q; expected a path such as team/app. Set the registry in %s.registry and the tag in %s.tag" $field $image.repository $field $field) -}}
{{- end -}}
{{- if and $image.digest (not (regexMatch "^sha256:[0-9a-f]{64}$" $image.digest)) -}}
{{- fail (printf "%s.digest: got %q; expected sha256: and 64 hexadecimal digits. Correct it" $field $image.digest) -}}
{{- end -}}
{{- end -}}

{{/* Images that global.imageRegistry does not rewrite have to name that registry. Takes $. */}}
{{- define "trainshed.checkMirror" -}}
{{- $mirror := .Values.global.imageRegistry -}}
{{- if $mirror -}}
{{- $operator := index .Values "kuberay-operator" -}}
{{- $repository := dig "image" "repository" "quay.io/kuberay/operator" $operator -}}
{{- if and $operator.enabled (not (hasPrefix (printf "%s/" $mirror) $repository)) -}}
{{- fail (printf "global.imageRegistry: got %s, and kuberay-operator.image.repository is %s; expected a repository in that registry, because KubeRay's chart ignores global.imageRegistry. Set kuberay-operator.image.repository, such as %s/kuberay/operator" $mirror $repository $mirror) -}}
{{- end -}}
{{- $named := dict -}}
{{- range $name, $spec := .Values.controller.classes -}}
{{- $_ := set $named (printf "controller.classes.%s" $name) $spec -}}
{{- end -}}
{{- range $name, $node := merge (dict "head" .Values.head "groupDefaults" .Values.groupDefaults) .Values.groups -}}
{{- range $field := list "initContainers" "sidecars" -}}
{{- $owner := has $name (list "head" "groupDefaults") | ternary $name (printf "groups.%s" $name) -}}
{{- $_ := set $named (printf "%s.%s" $owner $field) (get (default dict $node) $field) -}}
{{- end -}}
{{- end -}}
{{- range $field, $spec := $named -}}
{{- range regexFindAll "(?m)^[- ]*image: .*$" (toYaml $spec) -1 -}}
{{- $image := regexReplaceAll "^[- ]*image: *[\"']?([^\"']*)[\"']?$" . "${1}" -}}
{{- if not (hasPrefix (printf "%s/" $mirror) $image) -}}
{{- fail (printf "global.imageRegistry: got %s, and %s has the image %s; expected an image in that registry. Change the image" $mirror $field $image) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Immutable fields of this release's claim. Takes $. */}}
{{- define "trainshed.checkClaim" -}}
{{- $claim := include "trainshed.claim" . | fromYaml -}}
{{- $found := include "trainshed.ownClaim" . | fromYaml -}}
{{- if and $found (not .Values.storage.url) (not .Values.storage.existingClaim) -}}
{{- $modes := $found.spec.accessModes | sortAlpha -}}
{{- if ne (toJson $modes) (toJson (sortAlpha $claim.accessModes)) -}}
{{- fail (printf "storage.claim.accessModes: got %s, and the claim %s has %s; expected the same, because Kubernetes cannot change them. Keep them, or change storage.claim.name" (toJson $claim.accessModes) $claim.name (toJson $modes)) -}}
{{- end -}}
{{- if and $claim.storageClass (ne $claim.storageClass (default "" $found.spec.storageClassName)) -}}
{{- fail (printf "storage.claim.storageClass: got %q, and the claim %s has %q; expected the same, because Kubernetes cannot change it. Keep it, or change storage.claim.name" $claim.storageClass $claim.name (default "" $found.spec.storageClassName)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* One controller in a namespace: see controller/namespace.yaml. Takes $. */}}
{{- define "trainshed.checkNeighbour" -}}
{{- if .Values.controller.enabled -}}
{{- $found := lookup "v1" "ConfigMap" .Release.Namespace "trainshed.dev" -}}
{{- $owner := dig "data" "release" .Release.Name (default dict $found) -}}
{{- if ne $owner .Release.Name -}}
{{- if ne $owner (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $found) -}}
{{- fail (printf "controller.enabled: got true, and the ConfigMap trainshed.dev in namespace %s, which Helm did not create, names release %q; expected no other controller. If none runs there, delete the ConfigMap; else use another namespace" .Release.Namespace $owner) -}}
{{- end -}}
{{- fail (printf "controller.enabled: got true, and namespace %s has the controller of release %q; expected one controller in a namespace. Use another namespace, or set controller.enabled=false" .Release.Namespace $owner) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Node access of Pods of a class. Takes $. */}}
{{- define "trainshed.checkClasses" -}}
{{- range $name := .Values.controller.trustedClasses -}}
{{- if not (hasKey $.Values.controller.classes $name) -}}
{{- fail (printf "controller.trustedClasses: got %q; expected one of controller.classes: %s. Correct the name" $name (keys $.Values.controller.classes | sortAlpha | join ", " | default "none")) -}}
{{- end -}}
{{- end -}}
{{- range $name, $spec := .Values.controller.classes -}}
{{- if not (has $name $.Values.controller.trustedClasses) -}}
{{- range $group := prepend (default list $spec.workerGroupSpecs) (default dict $spec.headGroupSpec) -}}
{{- $pod := default dict (default dict $group.template).spec -}}
{{- $refused := list -}}
{{- range $field := list "hostNetwork" "hostPID" "hostIPC" -}}
{{- if index $pod $field -}}
{{- $refused = append $refused $field -}}
{{- end -}}
{{- end -}}
{{- range $volume := $pod.volumes -}}
{{- if $volume.hostPath -}}
{{- $refused = append $refused "hostPath" -}}
{{- end -}}
{{- end -}}
{{- range $owner := concat (list $pod) (default list $pod.initContainers) (default list $pod.containers) -}}
{{- $security := default dict $owner.securityContext -}}
{{- range $field := list "privileged" "allowPrivilegeEscalation" -}}
{{- if index $security $field -}}
{{- $refused = append $refused $field -}}
{{- end -}}
{{- end -}}
{{- if or (and (hasKey $security "runAsUser") (eq (int $security.runAsUser) 0)) (eq (toString $security.runAsNonRoot) "false") -}}
{{- $refused = append $refused "a user that is root" -}}
{{- end -}}
{{- if (default dict $security.capabilities).add -}}
{{- $refused = append $refused "capabilities.add" -}}
{{- end -}}
{{- range $port := $owner.ports -}}
{{- if $port.hostPort -}}
{{- $refused = append $refused "hostPort" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $refused -}}
{{- fail (printf "controller.classes.%s: got %s, which Pod Security restricted refuses; expected a class without it. Remove it, or add %q to controller.trustedClasses" $name (first .) $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes $. */}}
{{- define "trainshed.checkDashboard" -}}
{{- $dashboard := .Values.dashboard -}}
{{- if and $dashboard.ingress.enabled (not $dashboard.ingress.host) -}}
{{- fail "dashboard.ingress.host: got nothing; expected the host name of the dashboard. Set it, or set dashboard.ingress.enabled=false" -}}
{{- end -}}
{{- if and $dashboard.httpRoute.enabled (not $dashboard.httpRoute.parentRefs) -}}
{{- fail "dashboard.httpRoute.parentRefs: got none; expected the Gateway of the route. Set it, or set dashboard.httpRoute.enabled=false" -}}
{{- end -}}
{{- if and (or $dashboard.ingress.enabled $dashboard.httpRoute.enabled) .Values.networkPolicy.enabled (not $dashboard.proxyNamespace) -}}
{{- fail "dashboard.proxyNamespace: got nothing; expected the namespace of the ingress controller or gateway, because NetworkPolicies close the dashboard. Set it" -}}
{{- end -}}
{{- end -}}

{{/* Takes $. */}}
{{- define "trainshed.checkRedis" -}}
{{- $redis := .Values.gcsFaultTolerance -}}
{{- if and (or $redis.passwordSecret $redis.to) (not $redis.redisAddress) -}}
{{- fail "gcsFaultTolerance.redisAddress: got nothing; expected HOST:PORT, because passwordSecret or to is set. Set it, or remove them" -}}
{{- end -}}
{{- end -}}

{{/* KubeRay's mTLS is behind a feature gate. Takes $. */}}
{{- define "trainshed.checkTls" -}}
{{- $operator := index .Values "kuberay-operator" -}}
{{- $gates := dict -}}
{{- range default list $operator.featureGates -}}
{{- $_ := set $gates .name .enabled -}}
{{- end -}}
{{- if and .Values.ray.tls $operator.enabled (not (get $gates "RayClusterMTLS")) -}}
{{- fail "ray.tls: got true without KubeRay's feature gate; expected {name: RayClusterMTLS, enabled: true} in kuberay-operator.featureGates. Add it to the gates that KubeRay's chart has by default" -}}
{{- end -}}
{{- end -}}

{{/* Rejects additions to a Pod that would replace what Ray needs. Takes (list $ FIELD NODE), NODE a head or a group. */}}
{{- define "trainshed.checkRayPod" -}}
{{- $root := index . 0 -}}
{{- $field := index . 1 -}}
{{- $node := index . 2 -}}
{{- range $name, $_ := $node.rayStartParams -}}
{{- if has $name (list "address" "port" "block" "num-cpus" "dashboard-host" "dashboard-port" "dashboard-agent-listen-port" "metrics-export-port" "no-monitor" "labels") -}}
{{- fail (printf "%s.rayStartParams: got %s, which the chart or KubeRay sets; expected another parameter of ray start. Remove it" $field $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := $node.labels -}}
{{- if hasPrefix "ray.io/" $name -}}
{{- fail (printf "%s.labels: got %s, which KubeRay sets; expected another label. Remove it" $field $name) -}}
{{- end -}}
{{- end -}}
{{- range $volume := $node.volumes -}}
{{- if has $volume.name (list "tmp" "home" "storage" "storage-ca" "autoscaler-tmp" "autoscaler-token" "shared-mem" "log-volume") -}}
{{- fail (printf "%s.volumes: got the name %s, which the chart or KubeRay uses; expected another name. Rename the volume" $field $volume.name) -}}
{{- end -}}
{{- if $volume.hostPath -}}
{{- fail (printf "%s.volumes: got hostPath in %s, which Pod Security restricted refuses; expected another kind of volume. Use a claim, an ephemeral volume or a CSI driver" $field $volume.name) -}}
{{- end -}}
{{- end -}}
{{- range $mount := $node.volumeMounts -}}
{{- if has (trimSuffix "/" $mount.mountPath) (list "/tmp" "/home/ray" "/dev/shm" "/etc/trainshed/storage-ca" $root.Values.storage.mountPath) -}}
{{- fail (printf "%s.volumeMounts: got %s, where the chart mounts a volume; expected another path. Mount it elsewhere" $field $mount.mountPath) -}}
{{- end -}}
{{- end -}}
{{- range $container := concat (default list $node.initContainers) (default list $node.sidecars) -}}
{{- if has $container.name (list "ray-head" "ray-worker" "autoscaler" "wait-gcs-ready") -}}
{{- fail (printf "%s: got a container %s, which the chart or KubeRay uses; expected another name. Rename it" $field $container.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
