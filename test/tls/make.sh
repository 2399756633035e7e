#!/bin/sh
# Makes the certificates of the tests anew, in this folder: a CA, what it has signed for localhost, one that is expired,
# and a key with a passphrase. Needs openssl. Nothing real trusts them, so their keys are no secrets.
set -e
cd "$(dirname "$0")"
ec="-newkey ec -pkeyopt ec_paramgen_curve:P-256"
openssl req -x509 $ec -nodes -keyout ca.key -out ca.pem -subj "/CN=Tests of Continuo" -days 36500
cat > ca.cnf <<'C'
[ca]
default_ca = d
[d]
database = made/index.txt
serial = made/serial
new_certs_dir = made
certificate = ca.pem
private_key = ca.key
default_md = sha256
policy = p
x509_extensions = e
[p]
commonName = supplied
[e]
subjectAltName = DNS:localhost,IP:127.0.0.1,IP:::1
C
made() { # name, start, end, serial
  openssl req $ec -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1"
  rm -rf made && mkdir made && touch made/index.txt && echo "$4" > made/serial
  openssl ca -batch -notext -config ca.cnf -startdate "$2" -enddate "$3" -in "$1.csr" -out "$1.pem"
}
made server 20240101000000Z 21240101000000Z 1000
made renewed 20240101000000Z 21240101000000Z 2000
made expired 20200101000000Z 20210101000000Z 3000
openssl pkcs8 -topk8 -in server.key -passout pass:secret -out encrypted.key
rm -rf made ca.cnf ca.key ./*.csr
