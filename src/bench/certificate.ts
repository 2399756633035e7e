// A certificate for 127.0.0.1, so that benchmarks speak real TLS. Its key is public, since everybody has this file: it is for
// measurements over the loopback and for nothing else. Made once, valid for 100 years:
//   openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=continuo bench, loopback only"
//     -addext "subjectAltName=IP:127.0.0.1,DNS:localhost" -addext "basicConstraints=critical,CA:FALSE" -keyout k.pem -out c.pem
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** What a client must trust. */
export const certificate = `-----BEGIN CERTIFICATE-----
MIIBwDCCAWagAwIBAgIUXmXv1SCMEEquVviz0cGaxuaiHi0wCgYIKoZIzj0EAwIw
KDEmMCQGA1UEAwwdY29udGludW8gYmVuY2gsIGxvb3BiYWNrIG9ubHkwIBcNMjYx
MTMwMDk0MDAxWhgPMjEyNjExMDYwOTQwMDFaMCgxJjAkBgNVBAMMHWNvbnRpbnVv
IGJlbmNoLCBsb29wYmFjayBvbmx5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
YH1IrbFPTvo68z1wEeailNkqlqFvnsI8sedkUweWMMNlqJ04gH/dBac3LXSgWDgL
sFELpGp/lnMv6QPP27NC9KNsMGowHQYDVR0OBBYEFA+MJtlkw+JFhpxswxdb3MfX
uZy2MB8GA1UdIwQYMBaAFA+MJtlkw+JFhpxswxdb3MfXuZy2MBoGA1UdEQQTMBGH
BH8AAAGCCWxvY2FsaG9zdDAMBgNVHRMBAf8EAjAAMAoGCCqGSM49BAMCA0gAMEUC
IQDsODXIpTSJfsL8+e0QGLShAwBiJRgT+1o8la1dT4CyigIgJunSPbXaPl+kkqjO
MclAK8kR/zQXK62Oedp83fMd6bI=
-----END CERTIFICATE-----
`
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgl0CQTL1PRp+ibjD4
+4xRQM/aUTFgRYlPaKJWO4cvJQehRANCAARgfUitsU9O+jrzPXAR5qKU2SqWoW+e
wjyx52RTB5Yww2WonTiAf90FpzctdKBYOAuwUQukan+Wcy/pA8/bs0L0
-----END PRIVATE KEY-----
`

/** Puts both into this folder; returns them as the setting `tls`. */
export async function writeCertificate(folder: string): Promise<{ readonly cert: string; readonly key: string }> {
  const files = { cert: join(folder, 'loopback-cert.pem'), key: join(folder, 'loopback-key.pem') }
  await writeFile(files.cert, certificate)
  await writeFile(files.key, key, { mode: 0o600 })
  return files
}
