{{- define "harpagon.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}

{{- define "harpagon.labels" -}}
app.kubernetes.io/name: harpagon
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* harpagon.meta (list CONTEXT ROLE): labels of everything that belongs to a role. */}}
{{- define "harpagon.meta" -}}
{{ include "harpagon.labels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "harpagon.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}

{{- define "harpagon.temporal" -}}
{{- .Values.temporal.address | default (printf "%s-temporal.%s.svc:7233" (include "harpagon.name" .) .Release.Namespace) -}}
{{- end }}

{{- define "harpagon.scheme" -}}{{ if .Values.tls.secret }}https{{ else }}http{{ end }}{{- end }}

{{/* What the roles share: where Temporal is, and the token. */}}
{{- define "harpagon.env" -}}
- {name: TEMPORAL_ADDRESS, value: {{ include "harpagon.temporal" . | quote }}}
- {name: TEMPORAL_NAMESPACE, value: {{ .Values.temporal.namespace | quote }}}
{{- if .Values.tls.secret }}
- {name: TEMPORAL_TLS, value: "true"}
{{- end }}
- {name: HARPAGON_TOKEN, valueFrom: {secretKeyRef: {name: {{ .Values.token.secret }}, key: {{ .Values.token.key }}}}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
{{- end }}

{{/* The flags by which roles prove who they are. */}}
{{- define "harpagon.proof" -}}
{{- if .Values.tls.secret -}}
, --tls-cert, /etc/harpagon/tls/tls.crt, --tls-key, /etc/harpagon/tls/tls.key, --tls-ca, /etc/harpagon/tls/ca.crt
{{- else -}}
, --plaintext
{{- end -}}
{{- if .Values.tokens.secret }}, --tokens, /etc/harpagon/tokens/tokens{{ end -}}
{{- end }}

{{- define "harpagon.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.tls.secret }}
- {name: tls, mountPath: /etc/harpagon/tls, readOnly: true}
{{- end }}
{{- if .Values.tokens.secret }}
- {name: tokens, mountPath: /etc/harpagon/tokens, readOnly: true}
{{- end }}
{{- end }}

{{- define "harpagon.volumes" -}}
- {name: tmp, emptyDir: {}}
{{- with .Values.tls.secret }}
- {name: tls, secret: {secretName: {{ . }}}}
{{- end }}
{{- with .Values.tokens.secret }}
- {name: tokens, secret: {secretName: {{ . }}}}
{{- end }}
{{- end }}

{{/* Nothing here asks Kubernetes for anything, runs as root or writes outside of its volumes. */}}
{{- define "harpagon.pod" -}}
automountServiceAccountToken: false
securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "harpagon.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{- define "harpagon.spread" -}}
topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app.kubernetes.io/instance: {{ (index . 0).Release.Name }}, app.kubernetes.io/component: {{ index . 1 }}}}}
{{- end }}

{{/* harpagon.budget (list CONTEXT ROLE REPLICAS MINIMUM) */}}
{{- define "harpagon.budget" -}}
{{- if and (gt (int (index . 2)) 1) (gt (int (index . 3)) 0) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: {{ include "harpagon.name" (index . 0) }}-{{ index . 1 }}, labels: {{ include "harpagon.meta" . | fromYaml | toJson }}}
spec:
  minAvailable: {{ index . 3 }}
  selector: {matchLabels: {app.kubernetes.io/instance: {{ (index . 0).Release.Name }}, app.kubernetes.io/component: {{ index . 1 }}}}
{{- end }}
{{- end }}

{{/* How many devices of the hardware that it scales by a worker offers. */}}
{{- define "harpagon.devices" -}}{{ if .gpus }}{{ .gpus }}{{ else }}{{ .cores }}{{ end }}{{- end }}

{{/* What the control role asks for on behalf of KEDA. */}}
{{- define "harpagon.hosts" -}}
{{- range .Values.workers }}{{ if .autoscale }}
provisioner "{{ .autoscale.hardware }}" {
  max      = {{ .autoscale.max }}
  devices  = {{ include "harpagon.devices" . }}
  external = true
}
{{- end }}{{ end }}
{{- end }}

{{/* Seconds of a duration such as 90s or 2m, which the schema allows. */}}
{{- define "harpagon.seconds" -}}
{{- if hasSuffix "m" . }}{{ mul 60 (trimSuffix "m" . | int) }}{{ else }}{{ trimSuffix "s" . | int }}{{ end -}}
{{- end }}
