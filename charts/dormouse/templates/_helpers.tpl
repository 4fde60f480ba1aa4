{{- define "dormouse.image" -}}
{{ .root.Values.image.registry }}dormouse-{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
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

{{- define "dormouse.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "dormouse.storageSecret" -}}
{{ .Values.storage.existingSecret | default "dormouse-storage" }}
{{- end }}
