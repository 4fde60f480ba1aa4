use super::*;

const LIVES: CertificateArgs = CertificateArgs { authority_seconds: 9_000, certificate_seconds: 900, trust_overlap_seconds: 30 };

fn leaf() -> Leaf {
    Leaf::gateway("sys")
}

#[test]
fn a_certificate_is_kept_until_it_is_due_or_meant_for_another() {
    let ca = Ca::generate().unwrap();
    let pem = ca.issue(&leaf().sans, LIVES.certificate()).unwrap();
    let now = Timestamp::from_second(1_000_000).unwrap();
    let due = renew_at(now, LIVES.certificate());
    let secret = secret_of(&leaf(), &pem, "f *.team", due);
    assert_eq!(still_good(&secret, "f *.team", now), Some(due));
    assert_eq!(still_good(&secret, "g *.team", now), None, "another authority");
    assert_eq!(still_good(&secret, "f *.team", due), None, "due");
    let mut damaged = secret;
    damaged.data.as_mut().unwrap().remove(TLS_KEY);
    assert_eq!(still_good(&damaged, "f *.team", now), None, "incomplete");
}

#[test]
fn a_new_authority_can_be_read_back_and_is_due_at_two_thirds_of_its_life() {
    let secret = new_authority(LIVES).unwrap();
    let now = Timestamp::now();
    let at = |seconds| trust(&secret, LIVES, now + jiff::SignedDuration::from_secs(seconds)).unwrap();
    assert_eq!((at(0).stage, at(0).is_due, at(5_000).is_due, at(6_001).is_due), (Stage::Settled, false, false, true));
    assert!(matches!(text(&secret, TLS_KEY), Err(CaError::Damaged(TLS_KEY))));
    let mut asked = secret;
    asked.metadata.annotations.as_mut().unwrap().insert(ROTATE.to_owned(), String::new());
    assert!(trust(&asked, LIVES, now).unwrap().is_due);
}

#[test]
fn what_the_secret_holds_says_who_signs_and_who_is_trusted() {
    let mut secret = new_authority(LIVES).unwrap();
    let other = Ca::generate().unwrap();
    let alone = trust(&secret, LIVES, Timestamp::now()).unwrap();
    let first = text(&secret, CA_CRT).unwrap();
    let put = |secret: &mut Secret, key: &str| {
        secret.data.as_mut().unwrap().insert(key.to_owned(), ByteString(other.cert_pem().as_bytes().to_vec()));
    };
    put(&mut secret, PREVIOUS_CRT);
    let switched = trust(&secret, LIVES, Timestamp::now()).unwrap();
    assert_eq!((alone.bundle, switched.bundle), (first.clone(), format!("{first}{}", other.cert_pem())));
    assert_eq!(switched.stage, Stage::Switched);
    assert_ne!(switched.fingerprint, alone.fingerprint);
    put(&mut secret, NEXT_CRT);
    assert_eq!(trust(&secret, LIVES, Timestamp::now()).unwrap().stage, Stage::Announced);
}

#[test]
fn a_wait_is_a_second_at_least_unless_less_is_the_most() {
    let (now, second) = (Timestamp::now(), Duration::from_secs(1));
    assert_eq!(wait_until(now, Duration::from_secs(60)), second);
    assert_eq!(wait_until(now, Duration::from_millis(200)), Duration::from_millis(200));
    assert_eq!(wait_until(now + Duration::from_secs(3_600), Duration::from_secs(60)), Duration::from_secs(60));
}
