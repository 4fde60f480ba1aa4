{{- define "dormouse.image" -}}
{{- $digest := index .root.Values.image.digests .name -}}
{{- $tag := .root.Values.image.tag | default .root.Chart.AppVersion -}}
{{ .root.Values.image.registry }}dormouse-{{ .name }}{{ if $digest }}@{{ $digest }}{{ else }}:{{ $tag }}{{ end }}
{{- end }}

{{- define "dormouse.selector" -}}
app.kubernetes.io/name: dormouse
dormouse.dev/component: {{ . }}
{{- end }}

{{- define "dormouse.labels" -}}
{{ include "dormouse.selector" .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The lines "annotations: …" of what belongs to a component, if there are any. */}}
{{- define "dormouse.annotations" -}}
{{- $all := merge (dict) (.more | default dict) .root.Values.commonAnnotations -}}
{{- with $all }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Labels and annotations of a component's pods. */}}
{{- define "dormouse.podMetadata" -}}
labels:
  {{- include "dormouse.labels" (dict "root" .root "name" .name) | nindent 2 }}
  {{- with (index .root.Values .name).podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- include "dormouse.annotations" (dict "root" .root "more" (index .root.Values .name).podAnnotations) }}
{{- end }}

{{- define "dormouse.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "dormouse.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "dormouse.probes" -}}
startupProbe: {httpGet: {path: /livez, port: admin}, periodSeconds: 1, failureThreshold: 120}
livenessProbe: {httpGet: {path: /livez, port: admin}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}
readinessProbe: {httpGet: {path: /readyz, port: admin}, periodSeconds: 1, timeoutSeconds: 2, failureThreshold: 2}
{{- end }}

{{- /* Where a component's pods run: as its values say, and otherwise not all on one node. */}}
{{- define "dormouse.placement" -}}
{{- $values := index .root.Values .name }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "dormouse.selector" $.name | nindent 8 }}
  {{- end }}
{{- end }}

{{- define "dormouse.storageSecret" -}}
{{ .Values.storage.existingSecret | default "dormouse-storage" }}
{{- end }}

{{- /* The Secret with the certificate that clients see; empty for plain HTTP. */}}
{{- define "dormouse.doorSecret" -}}
{{- if eq .Values.gateway.tls.source "secret" -}}
{{ required "gateway.tls.secret: name the Secret of type kubernetes.io/tls" .Values.gateway.tls.secret }}
{{- else if eq .Values.gateway.tls.source "operator" -}}
dormouse-gateway-door
{{- end -}}
{{- end }}

{{- /* The names that the operator's certificate for clients holds, separated by commas. */}}
{{- define "dormouse.doorNames" -}}
{{- if eq .Values.gateway.tls.source "operator" -}}
{{- $service := "dormouse-gateway" -}}
{{- $in := printf "%s.%s" $service .Release.Namespace -}}
{{- concat (list $service $in (printf "%s.svc" $in) (printf "%s.svc.cluster.local" $in) "localhost") .Values.gateway.tls.names | join "," -}}
{{- end -}}
{{- end }}
