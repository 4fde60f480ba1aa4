//! Placement, as a gateway does it.

use dormouse_control::{
    placement::{Search, Step, order},
    session::{Key, Record},
};
use dormouse_crds::session::{KernelSessionSpec, KernelSessionStatus, Placement};
use dormouse_protocol::kernel::PodInfo;

use crate::world::World;

impl World<'_> {
    /// Some gateway asks, chooses, and asks again when a pod has less room than it believed.
    pub fn place(&mut self, number: usize) -> Option<usize> {
        self.counts.moves += 1;
        let now = self.start + self.now;
        let record = self.record(number);
        let last = record.status.placement.as_ref().map(|last| last.pod_uid.clone());
        let mut pods: Vec<(usize, &str)> =
            self.pools[self.sessions[number].pool].iter().map(|pod| (*pod, self.pods[*pod].uid.as_str())).collect();
        order(&record.uid, last.as_deref(), &mut pods, |(_, uid)| (uid, uid));
        let names: Vec<_> = pods.iter().map(|(_, uid)| (*uid, *uid)).collect();
        let gateway = self.random.below(self.gateways.len() as u64) as usize;
        let loads = &mut self.gateways[gateway];
        let mut asked = 0;
        let found = loop {
            let mut search = Search::new(&record, &names, 0, now);
            let step = loop {
                match search.step(loads, now) {
                    Step::Ask(places) => {
                        asked += places.len() as u64;
                        for place in places {
                            let pod = &self.pods[pods[place].0];
                            let info = PodInfo {
                                pod: pod.uid.clone(),
                                namespace: "pods".to_owned(),
                                boot: pod.uid.clone(),
                                slots: self.region.slots,
                                used: pod.used,
                                idle: 0,
                                engine_digest: String::new(),
                                draining: pod.draining,
                                exhausted: false,
                            };
                            loads.answered(&pod.uid, Some(info), now, now);
                        }
                    }
                    step => break step,
                }
            };
            let Step::Found(placement) = step else { break None };
            let (pod, _) = *pods.iter().find(|(_, uid)| *uid == placement.pod_uid).unwrap();
            if !self.pods[pod].draining && self.pods[pod].used < self.region.slots {
                break Some((pod, placement.epoch));
            }
            self.counts.refused += 1;
            loads.forget(&placement.pod_uid);
        };
        loads.forget_older(now);
        self.counts.asked += asked;
        self.counts.asked_max = self.counts.asked_max.max(asked);
        let Some((pod, epoch)) = found else {
            self.counts.without_room += 1;
            return None;
        };
        self.counts.placed += 1;
        let session = &mut self.sessions[number];
        assert!(epoch > session.epoch, "an epoch is given out once");
        (session.pod, session.epoch) = (Some(pod), epoch);
        self.pods[pod].placed.push(number);
        Some(pod)
    }

    fn record(&self, number: usize) -> Record {
        let session = &self.sessions[number];
        let uid = format!("s{number}");
        let placement = session.pod.map(|pod| {
            let uid = &self.pods[pod].uid;
            Placement { pod: uid.clone(), pod_uid: uid.clone(), boot: uid.clone(), epoch: session.epoch }
        });
        Record {
            key: Key::new(format!("team-{}", session.pool), uid.clone()),
            object_uid: uid.clone(),
            uid,
            resource_version: String::new(),
            generation: 1,
            labels: Default::default(),
            created_at: String::new(),
            spec: KernelSessionSpec::default(),
            status: KernelSessionStatus { placement, last_epoch: Some(session.epoch), ..KernelSessionStatus::default() },
            finalizer: true,
            deleting: false,
            left_out: false,
        }
    }
}
