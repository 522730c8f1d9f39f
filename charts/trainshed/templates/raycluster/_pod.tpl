{{/*
Environment of a Ray container; later entries override earlier ones. Takes (list $ ENV).
A restarted head without fault tolerance is a new cluster, which no raylet of the old one can join:
for what Ray waits a minute by default, 10 seconds do. Their Pods end and new ones join the new head.
TRAINSHED_STORAGE is for scripts that `ray job submit` brings: Ray Train needs storage that all nodes share. The driver
of a TrainingRun sets its own.
*/}}
{{- define "trainshed.rayEnv" -}}
{{- $root := index . 0 -}}
{{- $env := dict
  "HOME" "/home/ray"
  "USER" "ray"
  "RAY_USAGE_STATS_ENABLED" "0"
  "RAY_START_ULIMIT_OPEN_FILES" ($root.Values.ray.openFiles | int | toString)
  "RAY_TRAIN_ENABLE_STATE_TRACKING" "1"
  "RAY_gcs_rpc_server_reconnect_timeout_s" "10"
  "TRAINSHED_HOME" (include "trainshed.home" $root)
  "TRAINSHED_STORAGE" (printf "%s/ray" (include "trainshed.home" $root))
  "TRAINSHED_SCRATCH" ($root.Values.scratch.tmp | toString)
-}}
{{- if and $root.Values.gcsFaultTolerance.redisAddress (not (hasKey $root "isClass")) -}}
{{- /* Workers wait for the same cluster's new head; KubeRay sets the time. */ -}}
{{- $_ := unset $env "RAY_gcs_rpc_server_reconnect_timeout_s" -}}
{{- end -}}
{{- range $name, $value := include "trainshed.storeEnv" $root | fromYaml -}}
{{- $_ := set $env $name $value -}}
{{- end -}}
{{- range $name, $value := $root.Values.ray.env -}}
{{- $_ := set $env $name $value -}}
{{- end -}}
{{- range $name, $value := index . 1 -}}
{{- $_ := set $env $name $value -}}
{{- end -}}
{{- range $name, $value := $env }}
- {name: {{ $name | quote }}, value: {{ include "trainshed.text" $value | quote }}}
{{- end }}
{{- end -}}

{{/* Volume mounts of the training image. KubeRay adds /dev/shm, as large as the memory. Takes $. */}}
{{- define "trainshed.imageMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: home, mountPath: /home/ray}
{{- if not .Values.storage.url }}
- {name: storage, mountPath: {{ .Values.storage.mountPath | quote }}}
{{- end }}
{{- if include "trainshed.caVolume" . }}
- {name: storage-ca, mountPath: /etc/trainshed/storage-ca, readOnly: true}
{{- end }}
{{- end -}}

{{- define "trainshed.imageVolumes" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.scratch.tmp | quote }}}
- name: home
  emptyDir: {sizeLimit: {{ .Values.scratch.home | quote }}}
{{- if not .Values.storage.url }}
- name: storage
  persistentVolumeClaim: {claimName: {{ include "trainshed.claimName" . | quote }}}
{{- end }}
{{- with include "trainshed.caVolume" . }}
- name: storage-ca
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Shared parts of the Pod specs of head and workers. Takes (list $ NODE), NODE a head or a filled group. */}}
{{- define "trainshed.rayPod" -}}
{{- $root := index . 0 -}}
{{- $node := index . 1 -}}
# A container that restarts in the same Pod would be a new Ray node under an old name.
restartPolicy: Never
serviceAccountName: {{ include "trainshed.serviceAccountName" $root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ int $node.terminationGracePeriodSeconds }}
securityContext:
  {{- include "trainshed.podSecurityContext" $root | nindent 2 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $node.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with $node.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $node.schedulerName }}
schedulerName: {{ . | quote }}
{{- end }}
{{- with $node.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $node.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $node.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $node.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $node.initContainers }}
initContainers:
  {{- include "trainshed.closedContainers" (list $root .) | nindent 2 }}
{{- end }}
volumes:
  {{- include "trainshed.imageVolumes" $root | nindent 2 }}
  {{- with $node.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Metadata of a Pod of the head or of a group. Takes (list $ NODE). */}}
{{- define "trainshed.rayPodMetadata" -}}
{{- $root := index . 0 -}}
{{- $node := index . 1 -}}
labels:
  {{- include "trainshed.podLabels" (list $root "ray" $node.labels) | nindent 2 }}
{{- with merge (dict) $node.annotations $root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Shared parts of the Ray containers of head and workers. Takes (list $ ENV IMAGE NODE). */}}
{{- define "trainshed.rayContainer" -}}
{{- $root := index . 0 -}}
image: {{ include "trainshed.image" (list $root (index . 2)) | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  {{- include "trainshed.securityContext" $root | nindent 2 }}
# KubeRay's own probe starts after ten seconds and runs every five.
readinessProbe:
  httpGet: {path: /api/healthz, port: 52365}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 15
env:
  {{- include "trainshed.rayEnv" . | trim | nindent 2 }}
{{- with concat $root.Values.ray.envFrom (include "trainshed.storeEnvFrom" $root | fromYamlArray) }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  {{- include "trainshed.imageMounts" $root | nindent 2 }}
  {{- with (index . 3).volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/*
Parts of a worker's Ray container that end it with its head: {args, lifecycle}. Takes (list $
SECONDS PORT): its grace period, and the head's port. KubeRay runs the args before `ray start`, joined to it with &&.
*/}}
{{- define "trainshed.followsHead" -}}
{{- $files := (index . 0).Files -}}
{{- $port := printf "export HEAD_PORT=%v" (index . 2) -}}
{{- $drain := printf "DRAIN_SECONDS=%d" (max 1 (sub (int (index . 1)) 15)) -}}
{{- $raylets := $files.Get "files/worker/raylets.sh" -}}
{{- $leave := printf "%s\n%s\n%s\n%s" $port $drain $raylets ($files.Get "files/worker/leave.sh") -}}
{{- dict
  "args" (list (printf "{ (%s\n%s\n%s) & }" $port $raylets ($files.Get "files/worker/watch-head.sh")))
  "lifecycle" (dict "preStop" (dict "exec" (dict "command" (list "/bin/bash" "-c" $leave))))
  | toYaml -}}
{{- end -}}
